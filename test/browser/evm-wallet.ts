/**
 * A wallet for a page: it stands in the browser, and signs for real with a key that stays in this process. What
 * it reads of the chain it asks a real node for.
 */
import type { Page } from "playwright-core";
import type { PrivateKeyAccount } from "viem/accounts";

/** A wallet refuses with a number, as EIP-1193 lists them. */
class WalletRefusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export interface EvmWalletOptions {
  readonly account: PrivateKeyAccount;
  readonly rpcUrl: string;
  /** Where the wallet is at first. */
  readonly chainId: number;
  /** Chains that it knows besides. */
  readonly knows?: readonly number[];
  /** Whom the user turns down. */
  readonly declines?: readonly string[];
  /** Until then the user looks at what is to be signed. */
  readonly thinks?: () => Promise<void>;
  /** Default: announced by EIP-6963; `injected`: `window.ethereum` alone. */
  readonly how?: "announced" | "injected";
  readonly name?: string;
}

export interface EvmWallet {
  /** What was asked of it: methods with their parameters, in order. */
  readonly calls: readonly { readonly method: string; readonly params: unknown }[];
  readonly methods: () => readonly string[];
  /** From here on the user turns nothing down. */
  readonly relent: () => void;
}

/** Puts it into every document that the page opens from here on. */
export async function injectEvmWallet(page: Page, options: EvmWalletOptions): Promise<EvmWallet> {
  const { account, rpcUrl, how = "announced", name = "Test Wallet" } = options;
  const calls: { method: string; params: unknown }[] = [];
  const known = new Set([options.chainId, ...(options.knows ?? [])]);
  let { chainId } = options;
  let declines = new Set(options.declines);

  const answer = async (method: string, params: unknown): Promise<unknown> => {
    const [first, second] = Array.isArray(params) ? params : [];
    if (declines.has(method)) throw new WalletRefusal(4001, "User rejected the request.");
    switch (method) {
      case "eth_requestAccounts":
        return [account.address];
      case "eth_chainId":
        return `0x${chainId.toString(16)}`;
      case "wallet_switchEthereumChain":
        if (!known.has(Number(first.chainId))) {
          throw new WalletRefusal(4902, "Unrecognized chain ID. Try adding the chain first.");
        }
        chainId = Number(first.chainId);
        return null;
      case "wallet_addEthereumChain":
        known.add(Number(first.chainId));
        return null;
      case "eth_signTypedData_v4": {
        await options.thinks?.();
        if (first !== account.address) throw new WalletRefusal(4100, "not an account of mine");
        const { EIP712Domain: _domain, ...types } = JSON.parse(second).types;
        return account.signTypedData({ ...JSON.parse(second), types });
      }
      case "personal_sign": {
        if (second !== account.address) throw new WalletRefusal(4100, "not an account of mine");
        return account.signMessage({ message: { raw: first } });
      }
      case "eth_call":
        return askNode(rpcUrl, method, params);
      default:
        throw new WalletRefusal(4200, `${method} is not supported`);
    }
  };
  await page.exposeFunction(`ask_${how}`, async (method: string, params: unknown) => {
    calls.push({ method, params });
    try {
      return { result: await answer(method, params) };
    } catch (cause) {
      if (!(cause instanceof WalletRefusal)) throw cause;
      return { error: { code: cause.code, message: cause.message } };
    }
  });
  await page.addInitScript({ content: standIn(how, name) });
  return {
    calls,
    methods: () => calls.map(({ method }) => method),
    relent() {
      declines = new Set();
    },
  };
}

/** In the browser: a provider that passes everything on. */
function standIn(how: "announced" | "injected", name: string): string {
  return `(() => {
    const provider = {
      async request({ method, params }) {
        const { result, error } = await window.ask_${how}(method, params);
        if (error) throw Object.assign(new Error(error.message), { code: error.code });
        return result;
      },
    };
    if (${how === "injected"}) return void (window.ethereum = provider);
    const info = { uuid: "7f9a", name: ${JSON.stringify(name)}, icon: "data:,", rdns: "test" };
    const announce = () => {
      const detail = Object.freeze({ info, provider });
      dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
    };
    addEventListener("eip6963:requestProvider", announce);
    announce();
  })();`;
}

async function askNode(rpcUrl: string, method: string, params: unknown): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(rpcUrl, { method: "POST", headers, body });
  const { result, error } = Object(await answer.json());
  if (error) throw new WalletRefusal(-32_603, String(error.message));
  return result;
}
