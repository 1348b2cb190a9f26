/**
 * What a priced route asks for, prepared once: the payment requirements of a concrete URL, and the
 * 402 body with nothing left to do but to put that URL in (protocol section 2.1).
 */
import {
  X402_VERSION,
  type PaymentRequiredResponse,
  type PaymentRequirements,
} from "../x402/x402.ts";

/** Payment requirements without the URL they are for. */
export type Offer = Omit<PaymentRequirements, "resource">;

/** Stands in for the resource while a body is prepared; no configuration text can contain it. */
const PLACEHOLDER = "\u0000resource\u0000";

export class Offers {
  readonly #offers: readonly Offer[];
  /** The JSON of `accepts`, cut where the resource goes in. */
  readonly #accepts: readonly string[];

  /** `offers` are in the order that buyers see. */
  constructor(offers: readonly Offer[]) {
    this.#offers = offers;
    const json = JSON.stringify(offers.map((offer) => withResource(offer, PLACEHOLDER)));
    this.#accepts = json.split(JSON.stringify(PLACEHOLDER));
  }

  /** The requirements for one URL. `resource` is absolute. */
  requirements(resource: string): PaymentRequiredResponse["accepts"] {
    return this.#offers.map((offer) => withResource(offer, resource));
  }

  /** The body of a 402, 400 or 500 answer: JSON text with `error` and the requirements for one URL. */
  body(error: string, resource: string): string {
    const accepts = this.#accepts.join(JSON.stringify(resource));
    return `{"x402Version":${X402_VERSION},"error":${JSON.stringify(error)},"accepts":${accepts}}`;
  }
}

/** Field order is that of the protocol's table, for people who read it. */
function withResource(offer: Offer, resource: string): PaymentRequirements {
  const { scheme, network, maxAmountRequired, asset, payTo, ...rest } = offer;
  return { scheme, network, maxAmountRequired, asset, payTo, resource, ...rest };
}
