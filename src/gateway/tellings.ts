/**
 * What anybody may have looked up in the ledger: what became of a payment, whether he may have a session, what is left of what
 * he has prepaid. Each look
 * counts as a request without payment, and takes a place as any other.
 */
import { usesPot } from "../ledger/ledger.ts";
import type { Paywall } from "../payments/sale/paywall.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import { balanceAnswer } from "./balances.ts";
import { corsLines, crowdedAnswer, limitedAnswer, type OwnAnswer } from "./answers.ts";
import type { Client } from "./client/client.ts";
import type { Decision } from "./decision.ts";
import { endWith, type RequestEnding } from "./ending.ts";
import type { InboundRequest } from "./message/inbound.ts";
import { statusAnswer } from "./payment-status.ts";
import { openSession } from "./sessions.ts";
import type { Visitor } from "./visitor.ts";
import type { GatewaySettings, Generation, ServedSite, Work } from "./work.ts";

/** Who asks, as far as is proven. */
export type ClientOf = (
  request: InboundRequest,
  settings: GatewaySettings,
  site: ServedSite,
) => Client;

/** What is asked of the money side. */
type Told = Pick<Paywall, "status" | "openSession" | "balances">;

export class Tellings {
  readonly #paywall: Told;
  readonly #work: Pick<Work, "inPlace">;
  readonly #clientOf: ClientOf;

  constructor(paywall: Told, work: Pick<Work, "inPlace">, clientOf: ClientOf) {
    this.#paywall = paywall;
    this.#work = work;
    this.#clientOf = clientOf;
  }

  /** For whoever has the URL of a receipt. */
  status(
    visitor: Visitor,
    payment: PaymentKey,
    generation: Generation,
    site: ServedSite,
  ): Promise<RequestEnding> {
    return this.#tell(visitor, generation, site, async (_, lines) => {
      const status = await this.#paywall.status(payment);
      const pot = usesPot(payment);
      const uses = status && (await this.#paywall.balances([pot])).get(pot);
      return { answer: statusAnswer(status, lines, uses), outcome: "free", meter: null };
    });
  }

  session(
    visitor: Visitor,
    decision: Extract<Decision, { kind: "session" }>,
    generation: Generation,
    site: ServedSite,
  ): Promise<RequestEnding> {
    return this.#tell(visitor, generation, site, ({ address }, lines) => {
      return openSession(this.#paywall, decision, { address, lines });
    });
  }

  balance(
    visitor: Visitor,
    { asked }: Extract<Decision, { kind: "balance" }>,
    generation: Generation,
    site: ServedSite,
  ): Promise<RequestEnding> {
    return this.#tell(visitor, generation, site, ({ address }, lines) => {
      return balanceAnswer(this.#paywall, asked, { address, lines });
    });
  }

  async #tell(
    visitor: Visitor,
    { settings, challenge }: Generation,
    site: ServedSite,
    answer: (client: Client, lines: readonly string[]) => Promise<OwnAnswer>,
  ): Promise<RequestEnding> {
    const client = this.#clientOf(visitor.request, settings, site);
    const lines = corsLines(site.cors, visitor.request);
    const seconds = challenge.waitForWord(client);
    if (seconds > 0) {
      const limited = limitedAnswer(seconds, undefined, lines);
      return endWith(visitor, { answer: limited, outcome: "limited", meter: null });
    }
    const ending = await this.#work.inPlace(client.address, visitor, async () => {
      return endWith(visitor, await answer(client, lines));
    });
    if (ending !== undefined) return ending;
    return endWith(visitor, { answer: crowdedAnswer(lines), outcome: "rejected", meter: null });
  }
}
