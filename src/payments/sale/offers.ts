/**
 * What a priced route asks for, prepared once: the payment requirements of a concrete URL, the 402 body with nothing
 * left to do but to put that URL in (protocol section 2.1), and the same offers as version 2 has them in a header. Only
 * who pays the network fee on Solana may change while the process runs; then both are prepared again. The header has a
 * memo besides, where one is asked for, or a blockhash of the moment, where one is known.
 */
import { asciiJson, encodeAscii, PAYMENT_REQUIRED_HEADER } from "../../x402/header.ts";
import { extensionsOf } from "../../x402/bazaar.ts";
import { findNetwork } from "../../x402/network.ts";
import { identifierExtension, type IdentifierUse } from "../../x402/payment-identifier.ts";
import { SIGN_IN, supportedChains, type ChallengeInfo, type SignIns } from "../../x402/sign-in.ts";
import {
  flowOf,
  requirementsV2,
  resourceV2,
  type ExtensionsV2,
  type BlockhashHint,
  type ResourceV2,
} from "../../x402/version-2.ts";
import {
  BOTH_VERSIONS,
  X402_VERSION,
  X402_VERSION_2,
  type PaymentRequiredResponse,
  type PaymentRequirements,
  type SpokenVersions,
  type X402Version,
} from "../../x402/x402.ts";
import { bare, encodeOpen, opened } from "./quote-text.ts";
import { bySoonest, stopOf, stopOn, type Stop, type Stops } from "./stops.ts";
import type { BlockhashHints } from "./blockhash-hints.ts";

/** Payment requirements without the URL they are for, and on Solana without `extra.feePayer`. */
export type Offer = Omit<PaymentRequirements, "resource">;

/** Who pays the network fee on Solana: a buyer has to name that account in what is signed. */
export interface FeePayers {
  /** Another number as soon as an answer of `offered` is another one. */
  readonly revision: number;
  /** The account that buyers are told now, base58; undefined where nobody can be told. */
  offered(network: string): string | undefined;
  /** Whether payments that name that account can be settled, be it told now or before. */
  isKnown(network: string, address: string): boolean;
}

/** Where nothing is sold on Solana. */
export const NO_FEE_PAYERS: FeePayers = {
  revision: 0,
  offered: () => undefined,
  isKnown: () => false,
};

/**
 * Whether payments on a network are taken now. `unsteady`: they are, and either they may not be in a moment, or they were
 * not a short while ago: whoever can pay elsewhere is asked to do that.
 */
export type NetworkState = "open" | "unsteady" | "closed";

export interface NetworkStates {
  /** Another number as soon as an answer of `of` is another one. */
  readonly revision: number;
  of(network: string): NetworkState;
  /** What is not sold for now, whatever else is open. Default: nothing. */
  readonly stops?: Stops;
}

/** Where nothing is known of them. */
export const ALL_OPEN: NetworkStates = { revision: 0, of: () => "open" };

const NONE_OPEN: NetworkStates = { revision: 0, of: () => "closed" };

/** Why a payment is asked for: a sentence, in the words of either version. */
export interface Said {
  readonly error: string;
  readonly errorV2: string;
}

/** Who asks who a client is. */
interface SignInAsker {
  readonly issuer: Pick<SignIns, "challenge" | "nextNonce">;
  readonly now: () => number;
}

/** What a quote says beside its offers. */
export interface QuoteTerms {
  /** The versions that are spoken; default: both. */
  readonly protocol?: SpokenVersions;
  /** Version 2: of the service that sells. */
  readonly service?: Pick<ResourceV2, "serviceName" | "tags" | "iconUrl">;
  /** Version 2: whether buyers may name their purchases; default: not. */
  readonly identifier?: IdentifierUse;
  /** Version 2: what has to stand as memo in a payment on Solana. Default: whatever a buyer likes. */
  readonly memo?: string | null;
  /** Version 2: asks who a client is that has paid before. Default: nobody is asked. */
  readonly signIn?: SignInAsker | null;
  /** Version 2: what is told of the chain on Solana. Default: nothing. */
  readonly blockhashes?: Pick<BlockhashHints, "of"> | undefined;
  /** What of it is asked for, and in which order. Default: all of it, in the order of the offers. */
  readonly networks?: NetworkStates | undefined;
  /** Key of the route that it is for, which may be stopped. */
  readonly route?: string;
  /** Version 2: whether it is paid after the work. Default: before. */
  readonly isSettledAfter?: boolean;
  /** Version 2: what else is told of it. Default: nothing. */
  readonly extensions?: ExtensionsV2;
}

/** The largest `PAYMENT-REQUIRED` with extensions, or with a query that it can do without: nginx reads heads of 4,096 bytes. */
const MAX_EXTENDED = 3_250;
/** The largest with a challenge to sign in: it is never what makes a head too long, and the lines of a page are a kilobyte. */
const MAX_ASKING = 2_900;
/** The largest of all: a head of more than 16 KiB breaks clients of either version. */
const MAX_QUOTE = 12_288;

/** Stands in for the resource while a body is prepared; no configuration text can contain it. */
const PLACEHOLDER = "\u0000resource\u0000";

interface Prepared {
  readonly revision: number;
  /** In the order that buyers see, as complete as they can be now. */
  readonly all: readonly Offer[];
  /** Those of them that a buyer can pay. */
  readonly offered: readonly Offer[];
  /** The JSON of `accepts`, cut where the resource goes in. */
  readonly accepts: readonly string[];
}

interface Beginning {
  /** Base64. */
  readonly text: string;
  /** How long the whole value may be, characters. */
  readonly most: number;
  /** None after it may be as short: before that is given up, the query is. */
  readonly isLast?: true;
  /** Where extensions are still open for a challenge to sign in: what comes behind it, up to the URL. */
  readonly behind?: string;
}

/** `PAYMENT-REQUIRED` and its value, base64. */
interface Quote {
  readonly lines: readonly [string, string];
  /** Where it asks who the client is: what comes behind the nonce, which differs from answer to answer. */
  readonly behindNonce?: string;
}

/** What was told last: most routes have one URL, and are asked for it again and again. Only one that is short is kept. */
interface LastQuote {
  readonly beginnings: readonly Beginning[];
  readonly resource: string;
  readonly error: string;
  /** Of the challenge that is in it, or was left out of it. */
  readonly issuedAt: string | undefined;
  readonly quote: Quote;
}

/** How `PAYMENT-REQUIRED` may begin. */
interface Header {
  /** What it asks for. */
  readonly offered: readonly Offer[];
  /** What it says of each of them besides. */
  readonly hints: readonly Hint[];
  /** The longest first. */
  readonly beginnings: readonly Beginning[];
}

type Memo = { readonly memo: string };
type Hint = BlockhashHint | Memo | undefined;

const NO_HINTS: readonly Hint[] = [];

export class Offers {
  readonly #feePayers: FeePayers;
  readonly #networks: NetworkStates;
  readonly #offers: readonly Offer[];
  readonly #terms: QuoteTerms;
  readonly #isOnSolana: boolean;
  readonly #memo: Memo | undefined;
  /** Made when it is asked for: not every method of a route ever is. */
  #prepared: Prepared | undefined;
  #header: Header | undefined;
  #lastQuote: LastQuote | undefined;

  /** `offers` are in the order that buyers see. */
  constructor(
    offers: readonly Offer[],
    feePayers: FeePayers = NO_FEE_PAYERS,
    terms: QuoteTerms = {},
  ) {
    this.#offers = offers;
    this.#terms = terms;
    // Else nothing of it ever changes.
    this.#isOnSolana = offers.some(needsFeePayer);
    this.#memo = terms.memo ? { memo: terms.memo } : undefined;
    this.#feePayers = this.#isOnSolana ? feePayers : NO_FEE_PAYERS;
    this.#networks = terms.networks ?? ALL_OPEN;
  }

  /** Whether no payments on that network are taken now. */
  isClosed(network: string): boolean {
    return this.#networks.of(network) === "closed";
  }

  /** Networks that are left out: they are closed, or nobody is known who pays the network fee there. */
  get missing(): readonly string[] {
    const { all, offered } = this.#current();
    return all.filter((offer) => !offered.includes(offer)).map(({ network }) => network);
  }

  /** Why nothing of it is sold, and for how long, where that is meant; undefined: it is sold, or could be. */
  get stop(): Stop | undefined {
    const { stops } = this.#networks;
    if (stops === undefined || stops.size === 0) return undefined;
    const own = this.#stop;
    if (own !== undefined || !this.areNone) return own;
    const closed = this.#offers.map(({ network }) => stopOn(stops, network));
    const [first] = closed.filter((stop) => stop !== undefined).toSorted(bySoonest);
    return closed.includes(undefined) ? undefined : first;
  }

  get #stop(): Stop | undefined {
    const { route } = this.#terms;
    const { stops } = this.#networks;
    return stops === undefined || route === undefined ? undefined : stopOf(stops, route);
  }

  /** Another number as soon as something else is asked for than before. */
  get revision(): number {
    return this.#current().revision;
  }

  get identifier(): IdentifierUse {
    return this.#terms.identifier ?? "off";
  }

  /** On which it is sold, whether or not it can be paid now. */
  get networks(): readonly string[] {
    return this.#offers.map(({ network }) => network);
  }

  /** Whether nothing is left to pay with. */
  get areNone(): boolean {
    return this.#current().offered.length === 0;
  }

  /**
   * The requirements for one URL, also those that nobody is asked for now: on Solana they lack
   * `extra.feePayer` as long as nobody can be told. `resource` is absolute. A memo is asked of a payment of version 2.
   */
  requirements(
    resource: string,
    version: X402Version = X402_VERSION,
  ): PaymentRequiredResponse["accepts"] {
    return this.#current().all.map((offer) => this.#asked(offer, resource, version));
  }

  /** What a 402 asks for. */
  accepts(
    resource: string,
    version: X402Version = X402_VERSION,
  ): PaymentRequiredResponse["accepts"] {
    return this.#current().offered.map((offer) => this.#asked(offer, resource, version));
  }

  /**
   * The body of a 400 or 500 answer: JSON text with `error` and what is asked for one URL; without that where version
   * 1 is not spoken.
   */
  body(said: Said, resource: string): string {
    return this.#bodyOf(this.#current(), said, resource);
  }

  #bodyOf({ accepts }: Prepared, { error, errorV2 }: Said, resource: string): string {
    if (!this.#protocol.v1) return JSON.stringify({ error: errorV2 });
    const asked = accepts.join(JSON.stringify(resource));
    return `{"x402Version":${X402_VERSION},"error":${JSON.stringify(error)},"accepts":${asked}}`;
  }

  /** The body of a 402 answer; undefined where it would ask for nothing. */
  question(said: Said, resource: string): string | undefined {
    const prepared = this.#current();
    return prepared.offered.length === 0 ? undefined : this.#bodyOf(prepared, said, resource);
  }

  /**
   * What version 2 asks for one URL: a header line as name and value; none where that is not spoken, or would ask for
   * nothing. What makes it too long goes: the challenge to sign in first, which is to be had elsewhere, then schemas of
   * extensions, then extensions (an identifier that is required stays), then the query; where that is not enough for {@link MAX_EXTENDED}, it is back as far as {@link MAX_QUOTE}
   * allows, then what is said of the resource goes, too, then all of it. A URL is its visitor's: with its query alone
   * no buyer of either version gets a head that his proxy does not read.
   */
  quoteLines({ errorV2: error }: Said, resource: string): readonly string[] {
    if (!this.#protocol.v2) return [];
    const { beginnings } = this.#currentHeader();
    if (beginnings.length === 0) return [];
    const { signIn } = this.#terms;
    const nowMs = signIn ? signIn.now() : 0;
    const nonce = signIn?.issuer.nextNonce(nowMs);
    const last = this.#lastQuote;
    const isSame =
      last?.beginnings === beginnings &&
      last.resource === resource &&
      last.error === error &&
      last.issuedAt === nonce?.issuedAt;
    const quote = isSame
      ? last.quote
      : quoteOf(beginnings, resource, error, signIn?.issuer.challenge(nowMs, resource));
    if (quote === undefined) return [];
    const [name, value] = quote.lines;
    if (!isSame && Math.max(resource.length, value.length) <= MAX_EXTENDED)
      this.#lastQuote = { beginnings, resource, error, issuedAt: nonce?.issuedAt, quote };
    if (nonce === undefined || quote.behindNonce === undefined) return quote.lines;
    return [name, value + nonce.encoded + quote.behindNonce];
  }

  get #protocol(): SpokenVersions {
    return this.#terms.protocol ?? BOTH_VERSIONS;
  }

  #current(): Prepared {
    // Neither ever becomes less.
    const revision = this.#feePayers.revision + this.#networks.revision;
    if (this.#prepared?.revision !== revision) {
      const sold = this.#stop === undefined ? this.#networks : NONE_OPEN;
      const { all, offered, accepts } = prepare(this.#offers, this.#feePayers, sold);
      this.#prepared = { revision, all, offered, accepts };
    }
    return this.#prepared;
  }

  /** Made anew with each blockhash: those who read documents and bodies have nothing of it. */
  #currentHeader(): Header {
    const { offered } = this.#current();
    const hints = this.#isOnSolana ? offered.map((offer) => this.#hintOf(offer)) : NO_HINTS;
    const known = this.#header;
    const isSame =
      known?.offered === offered && known.hints.every((hint, index) => hint === hints[index]);
    this.#header = isSame
      ? known
      : { offered, hints, beginnings: beginningsOf(offered, hints, this.#terms) };
    return this.#header;
  }

  /**
   * Where a memo is asked for there is no blockhash: nothing else would tell two payments of one buyer apart, who writes
   * something of his own there otherwise.
   */
  #hintOf(offer: Offer): Hint {
    if (!needsFeePayer(offer)) return undefined;
    return this.#memoOf(offer) ?? this.#terms.blockhashes?.of(offer.network);
  }

  #asked(offer: Offer, resource: string, version: X402Version): PaymentRequirements {
    const memo = version === X402_VERSION_2 ? this.#memoOf(offer) : undefined;
    const asked = memo === undefined ? offer : { ...offer, extra: { ...offer.extra, ...memo } };
    return withResource(asked, resource);
  }

  #memoOf(offer: Offer): Memo | undefined {
    return needsFeePayer(offer) ? this.#memo : undefined;
  }
}

function prepare(
  offers: readonly Offer[],
  feePayers: FeePayers,
  networks: NetworkStates,
): Omit<Prepared, "revision"> {
  const all = offers.map((offer) => {
    if (!needsFeePayer(offer)) return offer;
    const feePayer = feePayers.offered(offer.network);
    return feePayer === undefined ? offer : { ...offer, extra: { ...offer.extra, feePayer } };
  });
  const payable = all.filter((offer) => !needsFeePayer(offer) || feePayerOf(offer) !== undefined);
  const inState = (state: NetworkState): readonly Offer[] =>
    payable.filter(({ network }) => networks.of(network) === state);
  const offered = [...inState("open"), ...inState("unsteady")];
  const json = JSON.stringify(offered.map((offer) => withResource(offer, PLACEHOLDER)));
  return { all, offered, accepts: json.split(JSON.stringify(PLACEHOLDER)) };
}

/** As much as may be said, the most first; all but the URL and the error. */
function beginningsOf(
  offered: readonly Offer[],
  hints: readonly Hint[],
  { service, signIn, identifier: use = "off", isSettledAfter, extensions: beside }: QuoteTerms,
): readonly Beginning[] {
  const [first] = offered;
  if (first === undefined) return [];
  const accepts = offered.map((offer, index) =>
    requirementsV2(offer, { ...flowOf(isSettledAfter), ...hints[index] }),
  );
  const identifier = identifierExtension(use);
  const all = { ...extensionsOf(first), ...beside, ...identifier };
  const required = bare(use === "required" ? identifier : {});
  const resource = { ...resourceV2({ ...first, resource: "" }), ...service, url: undefined };
  const forms = [
    { extensions: all, resource, most: MAX_EXTENDED },
    { extensions: bare(all), resource, most: MAX_EXTENDED },
    { extensions: bare(identifier), resource, most: MAX_EXTENDED },
    { extensions: required, resource, most: MAX_EXTENDED, isLast: true },
    { extensions: required, resource, most: MAX_QUOTE },
    { extensions: required, resource: {}, most: MAX_QUOTE, isLast: true },
  ] as const;
  const plain = forms.map(({ extensions, resource: what, ...rest }): Beginning => {
    const said = Object.keys(extensions).length === 0 ? {} : { extensions };
    const quote = { x402Version: X402_VERSION_2, accepts, ...said, resource: what };
    return { text: encodeOpen(opened(quote)), ...rest };
  });
  if (!signIn) return plain;
  const asking = opened({ x402Version: X402_VERSION_2, accepts, extensions: all });
  const chains = asciiJson(supportedChains(offered.map(({ network }) => network)));
  const behind = `,"supportedChains":${chains}}},${opened({ resource }).slice(1)}`;
  return [{ text: encodeOpen(asking), most: MAX_ASKING, behind }, ...plain];
}

function quoteOf(
  beginnings: readonly Beginning[],
  resource: string,
  error: string,
  signIn?: ChallengeInfo,
): Quote | undefined {
  const end = endOfQuote(resource, error);
  let short: string | undefined;
  for (const { text, most, isLast, behind } of beginnings) {
    if (behind !== undefined) {
      const asked = signIn && askingQuote({ text, behind }, resource, error, signIn);
      if (asked !== undefined && asked.length <= most) return asked;
    } else if (text.length + end.length <= most) return quoted(text + end);
    if (!isLast) continue;
    short ??= endOfQuote(resource.split("?", 1)[0] ?? "", error);
    if (text.length + short.length <= most) return quoted(text + short);
  }
  return undefined;
}

/** The nonce is whole groups of three bytes, in the same place as long as nothing else changes. */
function askingQuote(
  { text, behind }: { readonly text: string; readonly behind: string },
  resource: string,
  error: string,
  signIn: ChallengeInfo,
): Quote & { readonly length: number } {
  const info = asciiJson(signIn);
  const nonceAt = info.lastIndexOf(signIn.nonce);
  const before = `"${SIGN_IN}":{"info":${info.slice(0, nonceAt)}`;
  const value = text + encodeAscii(before.padStart(Math.ceil(before.length / 3) * 3));
  const rest = info.slice(nonceAt + signIn.nonce.length + 1);
  const behindNonce = endOfQuote(resource, error, rest + behind);
  const nonce = encodeAscii(`${signIn.nonce}"`);
  const length = value.length + nonce.length + behindNonce.length;
  return { ...quoted(value), behindNonce, length };
}

function quoted(value: string): Quote {
  return { lines: [PAYMENT_REQUIRED_HEADER, value] };
}

function endOfQuote(url: string, error: string, before = ""): string {
  return encodeAscii(`${before}"url":${asciiJson(url)}},"error":${asciiJson(error)}}`);
}

function needsFeePayer({ network }: Offer): boolean {
  return findNetwork(network)?.kind === "solana";
}

/** The account that a requirement on Solana names; undefined where it names none. */
export function feePayerOf({ extra }: Offer): string | undefined {
  const feePayer = extra?.["feePayer"];
  return typeof feePayer === "string" ? feePayer : undefined;
}

/** Field order is that of the protocol's table, for people who read it. */
function withResource(offer: Offer, resource: string): PaymentRequirements {
  const { scheme, network, maxAmountRequired, asset, payTo, ...rest } = offer;
  return { scheme, network, maxAmountRequired, asset, payTo, resource, ...rest };
}
