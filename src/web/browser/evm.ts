/** Wallets of EVM networks: EIP-6963 and, where none is announced, `window.ethereum` (EIP-1193). */
import { amountText, isEvm, NotPaid, TooPoor, type EvmOffer } from "./offer.ts";
import { randomHex } from "./protocol.ts";
import { signedIn } from "./sign-in.ts";
import { askTerms } from "./terms.ts";
import { CONNECT, SIGN, type Wallet } from "./wallet.ts";

interface Provider {
  request(call: { readonly method: string; readonly params?: unknown }): Promise<unknown>;
}

interface Info {
  readonly uuid: string;
  readonly name: string;
}

declare global {
  interface Window {
    readonly ethereum?: Provider;
  }
  interface WindowEventMap {
    "eip6963:announceProvider": CustomEvent<{
      readonly info: Info;
      readonly provider: Provider;
    }>;
  }
}

/** So long ago an authorization begins, seconds: clocks differ, and so do blocks. */
const BACKDATED_SECONDS = 600;
/** What of its time must be left when it was signed, seconds: the shop turns down what is nearly over. */
const MARGIN_SECONDS = 8;
/** The wallet does not know the chain (EIP-3085), as it says itself or as what it stands on does. */
const UNKNOWN_CHAIN = /4902|nrecognized chain|not (?:been )?added/;
const BALANCE_OF = "0x70a08231";

const MEMBERS =
  "from address,to address,value uint256,validAfter uint256,validBefore uint256,nonce bytes32";
const DOMAIN_MEMBERS = "name string,version string,chainId uint256,verifyingContract address";

/** Tells of each wallet that is there or announces itself. `seconds`: how long a payment may take. */
export function findEvmWallets(seconds: number, add: (wallet: Wallet) => void): void {
  let isAnnounced = false;
  addEventListener("eip6963:announceProvider", ({ detail: { info, provider } }) => {
    isAnnounced = true;
    add(walletOf(info, provider, seconds));
  });
  dispatchEvent(new Event("eip6963:requestProvider"));
  const addInjected = (): void => {
    if (isAnnounced || !window.ethereum) return;
    add(walletOf({ uuid: "", name: "Browser wallet" }, window.ethereum, seconds));
  };
  addInjected();
  addEventListener("ethereum#initialized", addInjected);
}

function walletOf({ uuid: id, name }: Info, provider: Provider, seconds: number): Wallet {
  return {
    id,
    name,
    canPay: isEvm,
    async signIn(offer: EvmOffer, say) {
      const from = await connect(provider, offer, say);
      return signedIn(offer, from, ({ hex }) =>
        provider.request({ method: "personal_sign", params: [hex, from] }),
      );
    },
    async sign(offer: EvmOffer, say) {
      const from = await connect(provider, offer, say);
      const begun = Date.now();
      const { payment, now } = await askTerms(offer, "");
      await requireBalance(provider, offer, from);
      say(SIGN);
      const payload = await authorize(provider, offer, { from, now, seconds, begun });
      return { ...payment, payload };
    },
  };
}

/** An account of the wallet, which is on the offer's chain then: a smart wallet is so on its own alone. */
async function connect(
  provider: Provider,
  offer: EvmOffer,
  say: (text: string) => void,
): Promise<string> {
  say(CONNECT);
  const accounts = await provider.request({ method: "eth_requestAccounts" });
  const from = (accounts as readonly unknown[] | null | undefined)?.[0];
  if (typeof from !== "string") throw new NotPaid("Your wallet shows no account.");
  await changeChain(provider, offer, say);
  return from;
}

async function changeChain(
  provider: Provider,
  { chainId: id, name, currency, rpc, explorer }: EvmOffer,
  say: (text: string) => void,
): Promise<void> {
  const isThere = async (): Promise<boolean> =>
    Number(await provider.request({ method: "eth_chainId" })) === id;
  if (await isThere()) return;
  say(`Allow your wallet to change to ${name}.`);
  const chainId = `0x${id.toString(16)}`;
  const change = { method: "wallet_switchEthereumChain", params: [{ chainId }] };
  try {
    await provider.request(change);
  } catch (cause) {
    const { code, message, data } = Object(cause);
    if (!UNKNOWN_CHAIN.test(`${code} ${message} ${JSON.stringify(data)}`)) throw cause;
    say(`Allow your wallet to add ${name}.`);
    const chain = {
      chainId,
      chainName: name,
      nativeCurrency: currency,
      rpcUrls: [rpc],
      blockExplorerUrls: [new URL(explorer).origin],
    };
    await provider.request({ method: "wallet_addEthereumChain", params: [chain] });
    if (!(await isThere())) await provider.request(change);
  }
  if (!(await isThere())) throw new NotPaid(`Your wallet is not on ${name}.`);
}

/** Where the wallet cannot tell, the shop will. */
async function requireBalance(provider: Provider, offer: EvmOffer, from: string): Promise<void> {
  const data = BALANCE_OF + from.slice(2).padStart(64, "0");
  const asking = { method: "eth_call", params: [{ to: offer.asset, data }, "latest"] };
  const answer = (await provider.request(asking).catch(() => "")) as string;
  if (!/^0x[\da-f]{64}$/i.test(answer)) return;
  const owned = BigInt(answer);
  const price = BigInt(offer.amount);
  if (owned >= price) return;
  throw new TooPoor(
    `The account holds too little: ${amountText(owned, offer)} on ${offer.name}, and this costs ${amountText(price, offer)}.`,
  );
}

interface Signing {
  readonly from: string;
  /** By the shop's clock, Unix seconds; and when it was asked, by the browser's, milliseconds. */
  readonly now: number;
  readonly begun: number;
  readonly seconds: number;
}

async function authorize(
  provider: Provider,
  { amount, asset, payTo, chainId, domain }: EvmOffer,
  { from, now, seconds, begun }: Signing,
): Promise<object> {
  const authorization = {
    from,
    to: payTo,
    value: amount,
    validAfter: `${now - BACKDATED_SECONDS}`,
    validBefore: `${now + seconds}`,
    nonce: randomHex(),
  };
  const typed = {
    domain: { ...domain, chainId, verifyingContract: asset },
    primaryType: "TransferWithAuthorization",
    types: { EIP712Domain: typesOf(DOMAIN_MEMBERS), TransferWithAuthorization: typesOf(MEMBERS) },
    message: authorization,
  };
  const signature = await provider.request({
    method: "eth_signTypedData_v4",
    params: [from, JSON.stringify(typed)],
  });
  if (Date.now() - begun > (seconds - MARGIN_SECONDS) * 1000) {
    throw new NotPaid(`The signature has expired: it counts for ${seconds} seconds.`);
  }
  return { signature, authorization };
}

/** Members as EIP-712 wants them told. */
function typesOf(members: string): object[] {
  return members.split(",").map((member) => {
    const [name, type] = member.split(" ");
    return { name, type };
  });
}
