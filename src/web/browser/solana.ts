/**
 * Wallets of Solana, by the wallet-standard. The shop writes the transaction, since it knows a recent block;
 * the wallet shows it and signs, and nothing but the shop's facilitator sends it.
 */
import { isEvm, NotPaid, type SolanaOffer } from "./offer.ts";
import { base64 } from "./protocol.ts";
import { signedIn } from "./sign-in.ts";
import { askTerms } from "./terms.ts";
import { CONNECT, SIGN, type Wallet } from "./wallet.ts";

const UNSIGNED = "The wallet did not sign.";

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
    readonly "solana:signMessage"?: {
      signMessage(input: {
        readonly account: Account;
        readonly message: Uint8Array;
      }): Promise<readonly { readonly signature: Uint8Array }[]>;
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
  const { features } = wallet;
  const connect = async (
    { cluster, name }: SolanaOffer,
    say: (text: string) => void,
  ): Promise<Account> => {
    say(CONNECT);
    const { accounts } = (await features["standard:connect"]?.connect()) ?? wallet;
    const account = accounts.find(({ chains }) => chains.includes(cluster));
    if (!account) throw new NotPaid(`The wallet has no account on ${name}.`);
    return account;
  };
  return {
    id: wallet,
    name: wallet.name,
    canPay: (offer) => !isEvm(offer) && wallet.chains.includes(offer.cluster),
    async signIn(offer: SolanaOffer, say) {
      const account = await connect(offer, say);
      return signedIn(offer, account.address, async (text) => {
        const message = new TextEncoder().encode(text.message);
        const signing = features["solana:signMessage"];
        const [signed] = (await signing?.signMessage({ account, message })) ?? [];
        if (!signed) throw new NotPaid(UNSIGNED);
        return base64(signed.signature);
      });
    },
    async sign(offer: SolanaOffer, say) {
      const account = await connect(offer, say);
      const { payment, draft } = await askTerms(offer, account.address);
      say(SIGN);
      const transaction = Uint8Array.from(atob(draft), (character) => character.charCodeAt(0));
      const chain = offer.cluster;
      const signing = features["solana:signTransaction"];
      const [signed] = (await signing?.signTransaction({ account, chain, transaction })) ?? [];
      if (!signed) throw new NotPaid(UNSIGNED);
      return { ...payment, payload: { transaction: base64(signed.signedTransaction) } };
    },
  };
}
