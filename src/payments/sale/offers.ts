/**
 * What a priced route asks for, prepared once: the payment requirements of a concrete URL, and the
 * 402 body with nothing left to do but to put that URL in (protocol section 2.1). Only who pays the network
 * fee on Solana may change while the process runs; then the body is prepared again.
 */
import { findNetwork } from "../../x402/network.ts";
import {
  X402_VERSION,
  type PaymentRequiredResponse,
  type PaymentRequirements,
} from "../../x402/x402.ts";

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

export class Offers {
  readonly #feePayers: FeePayers;
  readonly #offers: readonly Offer[];
  /** Made when it is asked for: not every method of a route ever is. */
  #prepared: Prepared | undefined;

  /** `offers` are in the order that buyers see. */
  constructor(offers: readonly Offer[], feePayers: FeePayers = NO_FEE_PAYERS) {
    this.#offers = offers;
    // Else nothing of it ever changes.
    this.#feePayers = offers.some(needsFeePayer) ? feePayers : NO_FEE_PAYERS;
  }

  /** Networks that are left out, since nobody is known who pays the network fee there. */
  get missing(): readonly string[] {
    const { all, offered } = this.#current();
    return all.filter((offer) => !offered.includes(offer)).map(({ network }) => network);
  }

  /** Another number as soon as something else is asked for than before. */
  get revision(): number {
    return this.#current().revision;
  }

  /** Whether nothing is left to pay with. */
  get areNone(): boolean {
    return this.#current().offered.length === 0;
  }

  /**
   * The requirements for one URL, also those that nobody is asked for now: on Solana they lack
   * `extra.feePayer` as long as nobody can be told. `resource` is absolute.
   */
  requirements(resource: string): PaymentRequiredResponse["accepts"] {
    return this.#current().all.map((offer) => withResource(offer, resource));
  }

  /** What a 402 asks for. */
  accepts(resource: string): PaymentRequiredResponse["accepts"] {
    return this.#current().offered.map((offer) => withResource(offer, resource));
  }

  /** The body of a 400 or 500 answer: JSON text with `error` and what is asked for one URL. */
  body(error: string, resource: string): string {
    return write(this.#current(), error, resource);
  }

  /** The body of a 402 answer; undefined where it would ask for nothing. */
  question(error: string, resource: string): string | undefined {
    const current = this.#current();
    return current.offered.length === 0 ? undefined : write(current, error, resource);
  }

  #current(): Prepared {
    if (this.#prepared?.revision !== this.#feePayers.revision) {
      this.#prepared = prepare(this.#offers, this.#feePayers);
    }
    return this.#prepared;
  }
}

function write({ accepts }: Prepared, error: string, resource: string): string {
  const asked = accepts.join(JSON.stringify(resource));
  return `{"x402Version":${X402_VERSION},"error":${JSON.stringify(error)},"accepts":${asked}}`;
}

function prepare(offers: readonly Offer[], feePayers: FeePayers): Prepared {
  // Read first: what changes from here on is prepared again.
  const { revision } = feePayers;
  const all = offers.map((offer) => {
    if (!needsFeePayer(offer)) return offer;
    const feePayer = feePayers.offered(offer.network);
    return feePayer === undefined ? offer : { ...offer, extra: { ...offer.extra, feePayer } };
  });
  const offered = all.filter((offer) => !needsFeePayer(offer) || feePayerOf(offer) !== undefined);
  const json = JSON.stringify(offered.map((offer) => withResource(offer, PLACEHOLDER)));
  return { revision, all, offered, accepts: json.split(JSON.stringify(PLACEHOLDER)) };
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
