/**
 * Wallets of Solana, by the wallet-standard. The shop writes the transaction, since it knows a recent block;
 * the wallet shows it and signs, and nothing but the shop's facilitator sends it.
 */
import { isEvm, NotPaid, type SolanaOffer } from "./offer.ts";
import { base64 } from "./protocol.ts";
import { askTerms } from "./terms.ts";
import { CONNECT, SIGN, type Wallet } from "./wallet.ts";

interface Account {
  readonly address: string;
  readonly chains: readonly string[];
}

interface StandardWallet {
  readonly name: string;
  readonly chains: readonly string[];
  readonly accounts: readonly Account[];
  readonly features: {
    readonly "standard:connect"?: {
      connect(): Promise<{ readonly accounts: readonly Account[] }>;
    };
    readonly "solana:signTransaction"?: {
      signTransaction(input: {
        readonly account: Account;
        readonly chain: string;
        readonly transaction: Uint8Array;
      }): Promise<readonly { readonly signedTransaction: Uint8Array }[]>;
    };
  };
}

type Register = (...wallets: readonly StandardWallet[]) => void;

declare global {
  interface WindowEventMap {
    "wallet-standard:register-wallet": CustomEvent<(api: { readonly register: Register }) => void>;
  }
}

/** Tells of each wallet that is there or registers itself. */
export function findSolanaWallets(add: (wallet: Wallet) => void): void {
  const register: Register = (...wallets) => {
    for (const wallet of wallets) {
      if (wallet.features["solana:signTransaction"]) add(walletOf(wallet));
    }
  };
  addEventListener("wallet-standard:register-wallet", ({ detail }) => detail({ register }));
  dispatchEvent(new CustomEvent("wallet-standard:app-ready", { detail: { register } }));
}

function walletOf(wallet: StandardWallet): Wallet {
  return {
    id: wallet,
    name: wallet.name,
    canPay: (offer) => !isEvm(offer) && wallet.chains.includes(offer.cluster),
    async sign(offer: SolanaOffer, say) {
      const { features } = wallet;
      say(CONNECT);
      const { accounts } = (await features["standard:connect"]?.connect()) ?? wallet;
      const account = accounts.find(({ chains }) => chains.includes(offer.cluster));
      if (!account) throw new NotPaid(`The wallet has no account on ${offer.name}.`);
      const { payment, draft } = await askTerms(offer, account.address);
      say(SIGN);
      const transaction = Uint8Array.from(atob(draft), (character) => character.charCodeAt(0));
      const chain = offer.cluster;
      const signing = features["solana:signTransaction"];
      const [signed] = (await signing?.signTransaction({ account, chain, transaction })) ?? [];
      if (!signed) throw new NotPaid("The wallet did not sign.");
      return { ...payment, payload: { transaction: base64(signed.signedTransaction) } };
    },
  };
}
