/**
 * Asking for a payment: the answer with what a route costs, and how often one address is told without paying.
 */
import { PAYMENT_HEADERS } from "../x402/header.ts";
import { X402_VERSION, X402_VERSION_2, type PaymentRequirements } from "../x402/x402.ts";
import type { PaymentOutcome } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { systemTime } from "../time/time.ts";
import { onlyTheMost, unpayableAnswer, type Answer, type OwnAnswer } from "./answers.ts";
import type { Client } from "./client/client.ts";
import type { PresentedDecision, PricedDecision, PricedPlan } from "./decision.ts";
import { offersOfPayer } from "./membership.ts";
import type { InboundRequest } from "./message/inbound.ts";
import { draftAnswer, NO_DRAFTS, readDraftHeader, type Drafts } from "./offers/drafts.ts";
import { earlierRequirements, nameAskedEarlier } from "./offers/earlier-quotes.ts";
import { wantsPage } from "./offers/offer-page.ts";
import type { Admission } from "../payments/sale/admission.ts";
import type { Refusal, Result } from "../x402/result.ts";
import type { Paywall } from "../payments/sale/paywall.ts";
import { Counts } from "../fairness/counts.ts";
import { networkOf } from "../http/ip-address.ts";
import { UnpaidLimit, type UnpaidRates } from "./client/rate-limit.ts";
import type { Refused } from "./refused.ts";

/** Pause before an operator is told again that a route cannot be paid for, milliseconds. */
const UNPAYABLE_PAUSE_MS = 60_000;
const UNPAYABLE =
  "a route answers 503: it is sold on Solana only, and no facilitator says who pays the network fee there; " +
  "one of them has to tell extra.feePayer for that network in GET /supported";
const CLOSED = "a route answers 503: every network that it is sold on is closed";

const CHALLENGED = {
  status: 402,
  outcome: "challenged",
  error: `${PAYMENT_HEADERS[X402_VERSION]} header is required`,
  errorV2: `${PAYMENT_HEADERS[X402_VERSION_2]} header is required`,
} as const;

/** Beside the question: that it is the most that the request may cost, and no payment for it yet; and what is used up. */
function questionOf({
  provisional,
  told,
}: Pick<PricedDecision, "provisional" | "told">): Omit<Refused, "lines"> {
  if (provisional === undefined && told === undefined) return CHALLENGED;
  const { error, errorV2, ...rest } = CHALLENGED;
  const used = told === undefined ? "" : `; ${told}`;
  const said = (provisional === undefined ? "" : `; ${onlyTheMost(provisional)}`) + used;
  return { ...rest, error: error + said, errorV2: errorV2 + said };
}

export interface ChallengeOptions {
  readonly paywall: Pick<Paywall, "isInFlight">;
  readonly telemetry: Telemetry;
  /** Unpaid requests of one address. */
  readonly unpaidRates: UnpaidRates;
  /** Default: {@link NO_DRAFTS}. */
  readonly drafts?: Drafts;
}

export class Challenge {
  readonly #options: ChallengeOptions;
  readonly #unpaid: UnpaidLimit;
  /** Payments that are looked into and of which nothing is proven, by address (of IPv6: /64). */
  readonly #doubted = new Counts();
  #saysUnpayableAt = Number.NEGATIVE_INFINITY;

  constructor(options: ChallengeOptions) {
    this.#options = options;
    this.#unpaid = new UnpaidLimit(options.unpaidRates);
  }

  /**
   * Seconds that the client has to wait before anything is looked at; 0: none. Only refused payments keep
   * others from being looked at, so whoever pays is never kept waiting by those who merely ask. A payment
   * that is being processed already may go over the limit once more: its buyer asks again what became of it.
   */
  waitSeconds(decision: PricedDecision, { address }: Client): number {
    const unpaid = this.#unpaid;
    const isShown = decision.kind === "presented" || decision.kind === "signed-in";
    const refused = unpaid.waitSeconds(address, isShown ? "refused" : "asked");
    const isKnown = decision.kind === "signed-in";
    const seconds = isKnown ? Math.max(refused, unpaid.waitSeconds(address, "known")) : refused;
    if (seconds === 0 || decision.kind !== "presented") return seconds;
    const accepts = acceptable(decision);
    const { payment } = decision;
    if (!this.#options.paywall.isInFlight({ payment, accepts })) return seconds;
    return unpaid.waitSeconds(address, "refused", "twice");
  }

  /** Seconds that the client has to wait before it is told something for nothing; 0: none, and then it counts. */
  waitForWord({ address }: Client): number {
    const seconds = this.#unpaid.waitSeconds(address, "asked");
    if (seconds === 0) this.#unpaid.count(address, "asked");
    return seconds;
  }

  /**
   * Has a payment looked into that may turn out to be one whose signature proves nothing. Anybody can write those, so
   * they count while they are under way as if they were refused, and those that are, for as long as the limit says.
   * Others are never kept waiting by them: all clients may have one address, that of a proxy which nobody has named.
   * @param admit is given what to ask before a payment is looked into of which nothing is proven: seconds that its
   *   client has to wait first; 0: none, and from then on it counts
   */
  async lookInto(
    { address }: Client,
    admit: (doubt: () => number) => Promise<Admission>,
  ): Promise<Admission> {
    const network = networkOf(address);
    let isUnderWay = false;
    let isRefused = false;
    try {
      const admission = await admit(() => {
        if (isUnderWay) return 0;
        const others = this.#doubted.of(network);
        const seconds = this.#unpaid.waitSeconds(address, "unproven", "once", others);
        if (seconds > 0) return seconds;
        isUnderWay = true;
        this.#doubted.change(network, 1);
        return 0;
      });
      isRefused = admission.kind === "refused";
      return admission;
    } finally {
      if (isUnderWay) {
        this.#doubted.change(network, -1);
        if (isRefused) this.#unpaid.count(address, "unproven");
      }
    }
  }

  /** The answer to a request without a payment: JSON for programs, a page for people, or a transaction to sign. */
  challenge(
    request: InboundRequest,
    decision: PricedDecision,
    client: Client,
    lines: readonly string[],
  ): OwnAnswer | Promise<OwnAnswer> {
    const { plan, offers, page, resource } = decision;
    const challenged = questionOf(decision);
    if (page !== null) {
      const header = offers.areNone ? null : readDraftHeader(request);
      if (header !== null) {
        this.#unpaid.count(client.address, "asked");
        const { drafts = NO_DRAFTS } = this.#options;
        const said = challenged;
        const drafted = draftAnswer(drafts, { header, offers, resource, said, lines });
        return drafted.then((answer) => asking(plan, answer, "challenged"));
      }
      if (wantsPage(request)) {
        const accepted = request.headers["accept-encoding"];
        if (offers.areNone) {
          const { status, lines: told } = this.#unpayable(decision, challenged.error, lines);
          return asking(plan, page.answer(told, accepted, status), "challenged");
        }
        this.#unpaid.count(client.address, "asked");
        const quoted = [...lines, ...offers.quoteLines(challenged, resource)];
        return asking(plan, page.answer(quoted, accepted), "challenged");
      }
    }
    return this.ask(decision, client, { ...challenged, lines });
  }

  /**
   * The answer to a request that nothing was paid for: what is asked for, with an error; 503 in place of a 402 that would
   * ask for nothing. It counts unless that is our own fault.
   */
  ask({ plan, offers, resource }: PricedDecision, { address }: Client, said: Refused): OwnAnswer {
    const { status, outcome, error, lines } = said;
    const body = status === 402 ? offers.question(said, resource) : offers.body(said, resource);
    // Where nothing is to be signed anew, nothing is quoted where programs look for that.
    const quote = status === 402 || status === 400 ? offers.quoteLines(said, resource) : [];
    const answer =
      body === undefined
        ? this.#unpayable({ plan, offers }, error, lines)
        : { status, lines: quote.length === 0 ? lines : [...lines, ...quote], body };
    if (answer.status < 500 && outcome !== "unavailable") {
      this.#unpaid.count(address, outcome === "refused" ? "refused" : "asked");
    }
    return asking(plan, answer, outcome);
  }

  /** Who asks was looked up, and he is told what it costs him: that counts beside the question. */
  known({ address }: Client): void {
    this.#unpaid.count(address, "known");
  }

  /** A payment was looked at, and is not taken: it counts, though nothing is asked for. */
  refused({ address }: Client): void {
    this.#unpaid.count(address, "refused");
  }

  /** A request has no price: it counts as one that was told its price, or as a payment that was not taken. */
  unpriced({ address }: Client, { kind }: PricedDecision): void {
    this.#unpaid.count(address, kind === "presented" || kind === "signed-in" ? "refused" : "asked");
  }

  /** Nothing is left to pay with: the operator is told, too. */
  #unpayable(
    { plan: { label }, offers }: Pick<PricedDecision, "plan" | "offers">,
    error: string,
    lines: readonly string[],
  ): ReturnType<typeof unpayableAnswer> {
    const networks = offers.missing;
    const now = performance.now();
    // Where it is meant it was told when it began.
    if (offers.stop === undefined && now >= this.#saysUnpayableAt) {
      this.#saysUnpayableAt = now + UNPAYABLE_PAUSE_MS;
      const isClosed = networks.some((network) => offers.isClosed(network));
      const said = isClosed ? CLOSED : UNPAYABLE;
      this.#options.telemetry.logger.error({ route: label, networks }, said);
    }
    return unpayableAnswer(error, offers, lines);
  }
}

/** Whatever asks for a payment leaves here, be it JSON, a page or a transaction to sign, or says that it cannot. */
function asking({ meter, links }: PricedPlan, told: Answer, outcome: PaymentOutcome): OwnAnswer {
  const isUnpayable = outcome === "challenged" && told.status === 503;
  const isLinked = told.status === 402 && links.length > 0;
  const answer = isLinked ? { ...told, lines: [...told.lines, ...links] } : told;
  return { answer, outcome: isUnpayable ? "unavailable" : outcome, meter };
}

/** Every way to pay for what was presented: what is asked now, and what was asked a short while ago. */
export function acceptable(decision: PresentedDecision): readonly PaymentRequirements[] {
  const { plan, offers, payment, resource, earlier, version } = decision;
  const own = offersOfPayer(plan.members, payment);
  const asked = [offers, ...own].flatMap((each) => each.requirements(resource, version));
  if (earlier.length === 0) return asked;
  return [...asked, ...earlierRequirements(earlier, decision, systemTime.now())];
}

/** What the client calls its purchase, by what is asked now or was asked when it was told what it has accepted. */
export function nameOf(decision: PresentedDecision): Result<string | undefined, Refusal> {
  const { name, earlier } = decision;
  if (name.ok || earlier.length === 0) return name;
  return nameAskedEarlier(earlier, decision, systemTime.now()) ?? name;
}
