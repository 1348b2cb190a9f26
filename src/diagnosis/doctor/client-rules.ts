/**
 * What the official clients make of a 402 as it is sent: which of its offers they pay, or why none. Written down as data,
 * since the clients themselves are no part of a gateway; a test runs the real packages beside it, over thousands of
 * generated answers, and both have to decide alike. Amounts of version 2 clients are decimal digits, as ours are.
 */
import { isEvmAddress } from "../../x402/address.ts";
import { readHeaderJson } from "../../buyer/offer.ts";
import { isUsualToken, USUAL_TOKENS } from "../../x402/client-tokens.ts";
import { isRecord, memberOf } from "../../x402/json.ts";
import { networkOf, type NetworkName } from "../../x402/network.ts";
import { isSolanaAddress } from "../../x402/solana-address.ts";
import { nameOfCaip2, PAYMENT_FLOW } from "../../x402/version-2.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  X402_VERSION_2,
  type PaymentRequirements,
} from "../../x402/x402.ts";

/** Of a 402 what clients read. */
export interface SentQuote {
  /** Decoded JSON; undefined where it is none. */
  readonly body: unknown;
  /** The value of `PAYMENT-REQUIRED`; null: there is none. */
  readonly header: string | null;
}

/** Whose wallet pays. A client without a chain takes offers of any EVM network. */
export type BuyerWallet =
  | { readonly kind: "evm"; readonly chain: string | null }
  | { readonly kind: "solana" };

export type Verdict =
  /** `index`: of the offer that is signed for. */
  | { readonly kind: "pays"; readonly index: number }
  | {
      readonly kind: "refuses";
      /**
       * - `unreadable`: it throws on the answer as a whole.
       * - `too-dear`: above what it pays unless told otherwise.
       * - `unknown-token`: it pays in other tokens only, unless told otherwise.
       * - `other-network`: nothing that this wallet can sign for.
       * - `other-version`: it speaks another version of the protocol than the answer.
       */
      readonly reason:
        | "unreadable"
        | "too-dear"
        | "unknown-token"
        | "other-network"
        | "other-version";
      /** Words that go on from the name of the client. */
      readonly detail: string;
    };

/** One client as npm has it, with its default settings. */
export interface ClientRules {
  readonly name: string;
  readonly judge: (quote: SentQuote, wallet: BuyerWallet) => Verdict;
}

/**
 * The only networks that version 1 clients know: any other name makes them throw (x402 1.2.0 and 0.7.3,
 * `EvmNetworkToChainId` and `SvmNetworkToChainId`).
 */
const V1_EVM_NETWORKS: readonly string[] = [
  "abstract",
  "abstract-testnet",
  "base-sepolia",
  "base",
  "avalanche-fuji",
  "avalanche",
  "iotex",
  "sei",
  "sei-testnet",
  "polygon",
  "polygon-amoy",
  "peaq",
  "story",
  "educhain",
  "skale-base-sepolia",
];
const SOLANA_NETWORKS: readonly string[] = ["solana", "solana-devnet"];

/** What they prefer, spelled as they compare it, to the letter (x402 1.2.0, `getUsdcChainConfigForChain`). */
const V1_USDC: Readonly<Record<string, string>> = {
  "base-sepolia": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  base: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  "avalanche-fuji": "0x5425890298aed601595a70AB815c96711a31Bc65",
  avalanche: "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E",
  iotex: "0xcdf79194c6c285077a58da47641d4dbe51f63542",
  "solana-devnet": "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
  solana: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
  "sei-testnet": "0x4fcf1784b31630811181f670aea7a7bef803eaed",
  sei: "0xe15fc38f6d8c56af07bbcbe3baf5708a2bf42392",
  polygon: "0x3c499c542cef5e3811e1192ce70d8cc03d5c3359",
  "polygon-amoy": "0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582",
  peaq: "0xbbA60da06c2c5424f03f7434542280FCAd453d10",
  story: "0xF1815bd50389c46847f0Bda824eC8da914045D14",
  educhain: "0x12a272A581feE5577A5dFa371afEB4b2F3a8C2F8",
  abstract: "0x84a71ccd554cc1b02749b35d22f684cc8ec987e1",
  "abstract-testnet": "0xe4C7fBB0a626ed208021ccabA6Be1566905E2dFc",
  "skale-base-sepolia": "0x2e08028E3C4c2356572E096d8EF835cD5C6030bD",
};
/** Atomic units of whatever token (x402-fetch 1.2.0, `maxValue = BigInt(0.1 * 10 ** 6)`). */
const V1_FETCH_MOST = 100_000n;

/** `"$1"` (@x402/core 2.27.0, `DEFAULT_MAX_AMOUNT_PER_PAYMENT`) of any of their tokens: all have 6 decimals. */
const V2_MOST = 1_000_000n;
/**
 * EVM networks that version 2 clients register for version 1 answers (@x402/evm 2.27.0, `EVM_NETWORK_CHAIN_ID_MAP`):
 * those of version 1, and these. For answers of version 2 they register `eip155:*`, and on Solana `solana:*`.
 */
const V2_MORE_EVM_NETWORKS: readonly string[] = [
  "ethereum",
  "sepolia",
  "megaeth",
  "monad",
  "stable",
  "stable-testnet",
  "celo",
  "flare",
];
const V2_EVM_NETWORKS: readonly string[] = [...V1_EVM_NETWORKS, ...V2_MORE_EVM_NETWORKS];

/** What version 2 clients differ in, and what their users may set up. */
interface V2SetUp {
  /** Spend controls and payment flows: @x402/core 2.27.0 has them; 2.11.0 pays any amount of any token. */
  readonly isCareful: boolean;
  /** Those whose schemes are registered: both by `registerExactEvmScheme` and `registerExactSvmScheme`. */
  readonly versions: readonly unknown[];
}

const BOTH = [X402_VERSION, X402_VERSION_2];

export const CLIENTS: readonly ClientRules[] = [
  { name: "x402-fetch 1.2.0", judge: (quote, wallet) => judgeV1(quote, wallet, V1_FETCH_MOST) },
  { name: "x402-axios 0.7.2", judge: (quote, wallet) => judgeV1(quote, wallet, null) },
  {
    name: "@x402/fetch 2.27.0",
    judge: (quote, wallet) => judgeV2(quote, wallet, { isCareful: true, versions: BOTH }),
  },
  {
    name: "@x402/axios 2.11.0",
    judge: (quote, wallet) => judgeV2(quote, wallet, { isCareful: false, versions: BOTH }),
  },
];

/** Those of version 2 whose users have registered schemes of one version alone, as their README does of version 2. */
export const HALVES: readonly ClientRules[] = BOTH.map((version) => ({
  name: `@x402 with schemes of version ${version} alone`,
  judge: (quote, wallet) => judgeV2(quote, wallet, { isCareful: true, versions: [version] }),
}));

/** `most`: atomic units, whatever the token; null: any amount. */
function judgeV1({ body }: SentQuote, wallet: BuyerWallet, most: bigint | null): Verdict {
  const accepts = memberOf(body, "accepts");
  if (!Array.isArray(accepts)) return refuses("other-version", "finds no offers in the body");
  const offers: PaymentRequirements[] = [];
  for (const [index, each] of accepts.entries()) {
    const fault = v1Fault(each);
    if (fault !== null) return refuses("unreadable", `cannot read accepts[${index}]: ${fault}`);
    offers.push(each as PaymentRequirements);
  }
  const fitting = offers.filter(({ network }) => mayTakeV1(network, wallet));
  const chosen =
    fitting.find(({ network, asset }) => V1_USDC[network] === asset) ?? fitting[0] ?? offers[0];
  if (chosen === undefined) return refuses("unreadable", "finds no offer in accepts");
  const amount = readBigInt(chosen.maxAmountRequired);
  if (amount === undefined) return refuses("unreadable", "cannot read the amount");
  if (most !== null && amount > most) {
    return refuses("too-dear", `pays at most ${most} atomic units (0.10 USDC), whatever the token`);
  }
  return signs(chosen, wallet, V1_EVM_NETWORKS) ?? { kind: "pays", index: offers.indexOf(chosen) };
}

/** Without a chain a wallet is offered everything. */
function mayTakeV1(network: string, wallet: BuyerWallet): boolean {
  if (wallet.kind === "solana") return SOLANA_NETWORKS.includes(network);
  return wallet.chain === null || wallet.chain === network;
}

/** Null where it can sign for the offer, in the order in which it finds out. */
function signs(
  { network, payTo, asset }: PaymentRequirements,
  wallet: BuyerWallet,
  evmNetworks: readonly string[],
): Verdict | null {
  const kind = evmNetworks.includes(network) ? "evm" : "solana";
  if (kind !== wallet.kind) {
    return refuses("other-network", `picks the offer on ${network}, which it cannot sign for`);
  }
  const isAddress = kind === "evm" ? isEvmAddress : isSolanaAddress;
  if (isAddress(payTo) && isAddress(asset)) return null;
  return refuses("unreadable", `finds an address of another kind than ${network} has`);
}

const V1_SCHEMA: readonly (readonly [
  field: keyof PaymentRequirements,
  wanted: string,
  fits: (value: unknown) => boolean,
])[] = [
  ["scheme", '"exact"', (value) => value === "exact"],
  ["network", "a network that it knows", (value) => isKnownV1(value)],
  ["maxAmountRequired", "a whole number in a string", isWholeText],
  ["resource", "an absolute URL", (value) => typeof value === "string" && URL.canParse(value)],
  ["description", "a string", (value) => typeof value === "string"],
  ["mimeType", "a string", (value) => typeof value === "string"],
  ["outputSchema", "an object or absent", isRecordOrAbsent],
  ["payTo", "an address", (value) => matches(value, EVM_ADDRESS, SOLANA_ADDRESS)],
  ["maxTimeoutSeconds", "a whole number", (value) => Number.isInteger(value)],
  ["asset", "an address", (value) => matches(value, MIXED_ADDRESS, SOLANA_ADDRESS)],
  ["extra", "an object or absent", isRecordOrAbsent],
];

const EVM_ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const SOLANA_ADDRESS = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;
/** As they have it: the anchors bind to one side of the bar each. */
const MIXED_ADDRESS = /^0x[a-fA-F0-9]{40}|[A-Za-z0-9][A-Za-z0-9-]{0,34}[A-Za-z0-9]$/;

/** The first field that their schema refuses; null: none. */
function v1Fault(requirement: unknown): string | null {
  if (!isRecord(requirement)) return "it is no object";
  for (const [field, wanted, fits] of V1_SCHEMA) {
    if (!fits(requirement[field])) return `${field} has to be ${wanted}`;
  }
  return null;
}

function isKnownV1(value: unknown): boolean {
  if (typeof value !== "string") return false;
  return V1_EVM_NETWORKS.includes(value) || SOLANA_NETWORKS.includes(value);
}

/** As they judge it: any text that reads as such a number. */
function isWholeText(written: unknown): boolean {
  return typeof written === "string" && Number.isInteger(Number(written)) && Number(written) >= 0;
}

function isRecordOrAbsent(value: unknown): boolean {
  return value === undefined || isRecord(value);
}

function matches(value: unknown, ...patterns: readonly RegExp[]): boolean {
  return typeof value === "string" && patterns.some((pattern) => pattern.test(value));
}

/** An entry of `accepts` of either version, of which anything may be missing. */
type Entry = Partial<Omit<PaymentRequirements, "extra">> & {
  readonly amount?: string;
  readonly extra?: Readonly<Record<string, unknown>> | null;
};

function judgeV2(
  { body, header }: SentQuote,
  wallet: BuyerWallet,
  { isCareful, versions }: V2SetUp,
): Verdict {
  // A header is read alone, and nothing of it is checked (@x402/core 2.27.0, `getPaymentRequiredResponse`).
  const quote = header ? readHeaderJson(header) : body;
  const [version, accepts] = [memberOf(quote, "x402Version"), memberOf(quote, "accepts")];
  if (!Array.isArray(accepts))
    return refuses("unreadable", "finds nothing that asks for a payment");
  if (!versions.includes(version)) {
    const detail = `has no scheme of version ${String(version)}, in which it is asked`;
    return refuses("other-version", detail);
  }
  const offers: readonly Entry[] = accepts.map((each) => (isRecord(each) ? each : {}));
  const known = offers.filter(({ network, scheme }) => {
    return scheme === EXACT_SCHEME && isRegistered(String(network), wallet, version);
  });
  if (known.length === 0) return refuses("other-network", "finds no offer that it can sign for");
  const fitting = isCareful ? carefully(known, wallet) : ok(known);
  if (!fitting.ok) return fitting.error;
  const [chosen = {}] = fitting.value;
  const fault = wallet.kind === "evm" ? v2SigningFault(chosen) : null;
  return fault === null
    ? { kind: "pays", index: offers.indexOf(chosen) }
    : refuses("unreadable", fault);
}

function isRegistered(network: string, { kind }: BuyerWallet, version: unknown): boolean {
  if (version === X402_VERSION_2) return network.startsWith(kind === "evm" ? "eip155:" : "solana:");
  return (kind === "evm" ? V2_EVM_NETWORKS : SOLANA_NETWORKS).includes(network);
}

/** What may be paid without being told, the best first (`selectPaymentRequirements`, `applySpendControls`). */
function carefully(
  known: readonly Entry[],
  { kind }: BuyerWallet,
): Result<readonly Entry[], Verdict> {
  const recognized = known.filter((offer) => FLOWS.has(flowOf(offer)));
  if (recognized.length === 0) {
    return err(refuses("unreadable", "knows no paymentFlow of the answer"));
  }
  if (kind === "evm" && recognized.some(hasNoToken)) {
    return err(refuses("unreadable", "finds an offer without a token"));
  }
  const usual = recognized.filter(({ network = "", asset }) => {
    return isUsualToken(nameOfCaip2(network), asset);
  });
  if (usual.length === 0) {
    return err(refuses("unknown-token", "pays with the usual tokens only, unless told otherwise"));
  }
  const cheap = usual.filter(({ amount, maxAmountRequired = "" }) => {
    return (readBigInt(amount ?? maxAmountRequired) ?? V2_MOST + 1n) <= V2_MOST;
  });
  if (cheap.length === 0) return err(refuses("too-dear", "pays at most $1, unless told otherwise"));
  return ok(cheap.toSorted((one, other) => Number(isLater(other)) - Number(isLater(one))));
}

const AUTHORIZATION = "authorization";
const FLOWS = new Set<unknown>([AUTHORIZATION, PAYMENT_FLOW.paymentFlow, "escrow"]);

function flowOf({ extra }: Entry): unknown {
  return extra?.["paymentFlow"] ?? AUTHORIZATION;
}

/** Paid once the work is done: they like that better. */
function isLater(offer: Entry): boolean {
  return flowOf(offer) === AUTHORIZATION;
}

function v2SigningFault({ extra, payTo, asset, maxTimeoutSeconds }: Entry): string | null {
  if (!extra?.["name"] || !extra["version"]) {
    return "finds no name and version of the token in extra";
  }
  if (!isEvmAddress(payTo ?? "")) return "finds no EVM address in payTo";
  if (!isEvmAddress(asset ?? "")) return "finds no EVM address in asset";
  // They add it to the time and write the sum, whatever it is.
  const base: number = 1_000_000;
  return readBigInt(String(base + (maxTimeoutSeconds as number))) !== undefined
    ? null
    : "cannot read maxTimeoutSeconds";
}

/** They look at it only where they have a list to compare it with. */
function hasNoToken({ network = "", asset }: Entry): boolean {
  return Object.hasOwn(USUAL_TOKENS, nameOfCaip2(network)) && typeof asset !== "string";
}

/** As `BigInt` reads text; undefined where it throws. */
function readBigInt(text: string): bigint | undefined {
  try {
    return BigInt(text);
  } catch {
    return undefined;
  }
}

function refuses(reason: Extract<Verdict, { kind: "refuses" }>["reason"], detail: string): Verdict {
  return { kind: "refuses", reason, detail };
}

/** The wallets that buyers of these offers would come with. */
export function walletsFor(networks: readonly NetworkName[]): readonly BuyerWallet[] {
  const evm = [...new Set(networks)].filter((name) => networkOf(name).kind === "evm");
  const wallets: BuyerWallet[] = evm.map((chain) => ({ kind: "evm", chain }));
  if (evm.length > 0) wallets.unshift({ kind: "evm", chain: null });
  if (evm.length < new Set(networks).size) wallets.push({ kind: "solana" });
  return wallets;
}
