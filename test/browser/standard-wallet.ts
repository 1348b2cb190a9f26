/**
 * The part of a Solana wallet that stands in the browser: bundled with the real `@wallet-standard/wallet`, which
 * registers it as wallets do. Signing is passed on to the test's process, where the key is.
 */
import type { Wallet, WalletAccount } from "@wallet-standard/base";
import { registerWallet } from "@wallet-standard/wallet";

interface Given {
  readonly address: string;
  readonly publicKey: readonly number[];
  readonly chains: readonly `solana:${string}`[];
}

const host: Record<string, unknown> = Object(globalThis);
const ask = (request: object): Promise<unknown> =>
  Promise.resolve(Object(host)["ask_solana"](request));
const { address, publicKey, chains } = host["solanaWallet"] as Given;
const account: WalletAccount = {
  address,
  publicKey: Uint8Array.from(publicKey),
  chains,
  features: ["solana:signTransaction", "solana:signMessage"],
};

interface SignInput {
  readonly account: WalletAccount;
  readonly chain: string;
  readonly transaction: Uint8Array;
}

const wallet: Wallet = {
  version: "1.0.0",
  name: "Test Solana Wallet",
  icon: "data:image/png;base64,",
  chains,
  // Nothing is told before the user has allowed it.
  accounts: [],
  features: {
    "standard:connect": { version: "1.0.0", connect: async () => ({ accounts: [account] }) },
    "solana:signMessage": {
      version: "1.1.0",
      async signMessage({ message }: { readonly message: Uint8Array }) {
        const signed = Object(await ask({ message: [...message] }));
        return [{ signedMessage: message, signature: Uint8Array.from(signed.signature) }];
      },
    },
    "solana:signTransaction": {
      version: "1.0.0",
      supportedTransactionVersions: ["legacy", 0],
      async signTransaction({ account: { address: payer }, chain, transaction }: SignInput) {
        const signed = Object(await ask({ payer, chain, transaction: [...transaction] }));
        if (signed.error !== undefined) throw new Error(String(signed.error));
        return [{ signedTransaction: Uint8Array.from(signed.transaction) }];
      },
    },
  },
};

registerWallet(wallet);
