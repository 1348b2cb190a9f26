/** A paywall before a real ledger, with a facilitator that does what the test says. */
import { err, ok, type Refusal, type Result } from "../../../../src/x402/result.ts";
import { Payment, type Verified } from "../../../../src/payments/facilitator.ts";
import { createHash } from "node:crypto";
import { onTestFinished } from "vitest";
import type { Facilitator, SettleOptions } from "../../../../src/payments/facilitator.ts";
import type { Admission, Paid, Presented, Sold } from "../../../../src/payments/sale/admission.ts";
import { Paywall } from "../../../../src/payments/sale/paywall.ts";
import { SaleGuard, type SaleRules } from "../../../../src/payments/sale/sale-guard.ts";
import { LocalPaymentService } from "../../../../src/payments/sale/payment-service.ts";

import type { Ledger, Redemptions, TransitionKind } from "../../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import type { TextSigners } from "../../../../src/mechanism/mechanism.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import type {
  FacilitatorRequest,
  SettleResponse,
  VerifyResponse,
} from "../../../../src/x402/x402.ts";
import { payerOf } from "../../../../src/x402/payment-key.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import { ManualTime } from "../../gateway/manual-time.ts";

export const TRANSACTION = `0x${"ab".repeat(32)}`;
export const SETTLED: SettleResponse = {
  success: true,
  transaction: TRANSACTION,
  network: "base-sepolia",
  payer: PAYER,
};
export const REVERTED: SettleResponse = {
  success: false,
  errorReason: "invalid_transaction_state",
  transaction: "",
  network: "base-sepolia",
  payer: PAYER,
  detail: "it reverted",
};

export type Settle = (
  request: FacilitatorRequest,
  options: SettleOptions,
) => Promise<SettleResponse>;

export class ActedFacilitator implements Facilitator {
  readonly #ledger: Pick<Redemptions, "step">;
  readonly verified: FacilitatorRequest[] = [];
  readonly settled: (SettleOptions & { readonly request: FacilitatorRequest })[] = [];
  /** What `precheck` finds wrong with a request. */
  judge: (request: FacilitatorRequest) => VerifyResponse | undefined = () => undefined;
  onVerify: (request: FacilitatorRequest, signal: AbortSignal) => Promise<VerifyResponse> =
    async () => ({ isValid: true, payer: PAYER });
  onSettle: Settle = async () => SETTLED;
  /** What the chain shows of a payment that was refused. */
  onLookAgain: NonNullable<Facilitator["lookAgain"]> = async () => undefined;

  /** Whether only the chain can say who signed it. */
  isDoubtful: (request: FacilitatorRequest) => boolean = () => false;
  /** Whether its signature is proven here. */
  isProven: (request: FacilitatorRequest) => boolean = () => false;
  /** What the chain shows in a payer's purse, where it is asked. */
  meansAtomic: bigint | undefined = undefined;
  /** Who wanted payments verified, one for each of {@link verified}. */
  readonly clients: (string | undefined)[] = [];

  /** @param ledger where it stores what it has settled */
  constructor(ledger: Pick<Redemptions, "step">) {
    this.#ledger = ledger;
  }

  isRemote = (): boolean => false;
  seesUse = (): boolean => false;

  read(request: FacilitatorRequest): Result<Payment, Refusal> {
    const unproven = { authorization: {}, payer: "", proven: false, runsCode: true, fault: null };
    const payer = payerOf(request.paymentPayload);
    const proven = { ...unproven, payer, proven: true, runsCode: false };
    return Payment.read(request, (each) => {
      if (this.isProven(each)) return ok(proven);
      return this.isDoubtful(each) ? ok(unproven) : undefined;
    });
  }

  precheck({ request }: Payment): Refusal | undefined {
    const verdict = this.judge(request);
    return verdict && refusalOf(verdict);
  }

  async verify(
    { request }: Payment,
    signal: AbortSignal,
    client?: string,
  ): Promise<Result<Verified, Refusal>> {
    this.verified.push(request);
    this.clients.push(client);
    const refusal = refusalOf(await this.onVerify(request, signal));
    if (refusal !== undefined) return err(refusal);
    const { meansAtomic } = this;
    if (meansAtomic === undefined) return ok({});
    const checked = { authorization: {}, payer: PAYER, proven: true, runsCode: false, fault: null };
    return ok({ judged: { inspected: { ...checked, meansAtomic }, atMs: 0 } });
  }

  /** As a real one: what it has settled itself is stored when it is told. */
  async settle({ key, request }: Payment, options: SettleOptions): Promise<SettleResponse> {
    this.settled.push({ ...options, request });
    let isHandedOver = options.askedBefore !== undefined;
    const onHandOver: SettleOptions["onHandOver"] = async (...to) => {
      isHandedOver = true;
      await options.onHandOver?.(...to);
    };
    const answer = await this.onSettle(request, { ...options, onHandOver });
    if (!answer.success || isHandedOver) return answer;
    const { transaction, network, payer } = answer;
    const settlement = { transaction, network, payer };
    await this.#ledger.step(key, { kind: "settled", settlement });
    return answer;
  }

  lookAgain(...asked: Parameters<NonNullable<Facilitator["lookAgain"]>>) {
    return this.onLookAgain(...asked);
  }

  async supported(): Promise<{ readonly kinds: [] }> {
    return { kinds: [] };
  }
}

function refusalOf(verdict: VerifyResponse): Refusal | undefined {
  if (verdict.isValid) return undefined;
  const { invalidReason: code, detail = "the facilitator refused the payment" } = verdict;
  return { code, detail };
}

/** A settlement that a facilitator elsewhere makes. */
export const elsewhere =
  (then: Settle, name = "https://f.example", head: number | null = null): Settle =>
  async (request, options) => {
    await options.onHandOver?.(name, head);
    return then(request, options);
  };

export const WAIT_MS = 30_000;

/** A unit of six decimals is a millionth of a dollar. */
export const ALL_SOLD: SaleRules = {
  deny: { has: () => false },
  allow: null,
  perPayer: null,
  sales: null,
  gas: new Map(),
  prices: new Map(),
  worthOf: (_network, _asset, amount) => Number(amount),
};

export interface PaywallStage {
  readonly time: ManualTime;
  readonly ledger: Ledger;
  readonly facilitator: ActedFacilitator;
  readonly paywall: Paywall;
  readonly guard: SaleGuard;
  readonly rules: SaleRules;
  /** What was logged, as objects. */
  readonly log: Record<string, unknown>[];
}

export async function paywallStage(
  options: {
    readonly time?: ManualTime;
    readonly ledger?: Ledger;
    /** What the paywall gets in place of the ledger. */
    readonly redemptions?: (ledger: Ledger) => Redemptions;
    /** Default: nobody has signed anything. */
    readonly signers?: TextSigners;
    /** Default: all is sold to everybody. */
    readonly rules?: Partial<SaleRules>;
  } = {},
): Promise<PaywallStage> {
  const time = options.time ?? new ManualTime();
  const ledger =
    options.ledger ?? (await openSqliteLedger({ path: ":memory:", time, life: "only" }));
  onTestFinished(() => ledger.close());
  const facilitator = new ActedFacilitator(ledger);
  const log: Record<string, unknown>[] = [];
  const logger = createLogger({
    level: "info",
    format: "json",
    destination: { write: (line) => void log.push(JSON.parse(line)) },
  });
  let keys = 0;
  const redemptions = options.redemptions?.(ledger) ?? ledger;
  const { signers } = options;
  const rules = { ...ALL_SOLD, ...options.rules };
  const guard = new SaleGuard({ ledger, rules, logger, time });
  if (options.rules !== undefined) {
    await guard.start();
    onTestFinished(() => guard.stop());
  }
  const paywall = new Paywall({
    payments: new LocalPaymentService({ facilitator, redemptions, signers, guard, logger, time }),
    logger,
    settlementWaitMs: WAIT_MS,
    time,
    newIdempotencyKey: () => `key-${(keys += 1)}`,
  });
  return { time, ledger, facilitator, paywall, guard, rules, log };
}

interface Failure {
  count: number;
  readonly error: Error;
  /** The ledger did it, and its answer was lost. */
  readonly isDone?: boolean;
}

/** Fails the named calls, each as often as it says, and passes everything else on. */
export function failing(
  ledger: Redemptions,
  failures: Partial<Record<TransitionKind | "recall", Failure>>,
): Redemptions {
  return new Proxy(ledger, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return async (...values: unknown[]): Promise<unknown> => {
        const kind: unknown = name === "step" ? Object(values[1]).kind : name;
        const failure = Object.entries(failures).find(([failed]) => failed === kind)?.[1];
        const fails = failure !== undefined && failure.count > 0;
        if (!fails) return member.apply(target, values);
        failure.count -= 1;
        if (failure.isDone === true) await member.apply(target, values);
        throw failure.error;
      };
    },
  });
}

const EMPTY_BODY = createHash("sha256").update("").digest("hex");

/** A request for `GET /premium-data`. */
export function presented(number = 1, members: Partial<Presented> = {}): Presented {
  const { request } = examplePayment(number);
  return {
    payment: request.paymentPayload,
    accepts: [request.paymentRequirements],
    binding: "GET /premium-data",
    target: "/premium-data",
    client: "192.0.2.1",
    isGone: () => false,
    onGone: () => () => undefined,
    onReset: () => undefined,
    refusal: () => null,
    readBodyHash: async () => EMPTY_BODY,
    ...members,
  };
}

/** The same request where the seller asks for something else by now. */
export function repriced(
  members: Partial<FacilitatorRequest["paymentRequirements"]>,
  number = 1,
): Presented {
  const { paymentRequirements } = examplePayment(number).request;
  return presented(number, { accepts: [{ ...paymentRequirements, ...members }] });
}

export function sold(text = "the goods"): Sold {
  const headers = [["Content-Type", "text/plain"]] as const;
  return { bodyHash: EMPTY_BODY, response: { status: 200, headers, body: Buffer.from(text) } };
}

/** The sale of an admission that must be one. */
export function paidOf(admission: Admission): Paid {
  if (admission.kind !== "admitted") throw new Error(`not admitted: ${JSON.stringify(admission)}`);
  return admission.paid;
}

/** Says of an admission that must be a kept answer that all of it was sent. */
export function collectedOf(admission: Admission): () => Promise<void> {
  if (admission.kind !== "replayed") throw new Error(`not replayed: ${JSON.stringify(admission)}`);
  return admission.collected;
}

/** A refusal's code, an unknown's or unavailable's kind, or what else it was. */
export function tell(admission: Admission): string {
  return admission.kind === "refused" ? admission.refusal.code : admission.kind;
}

export async function stateOf(ledger: Ledger, number = 1): Promise<string> {
  const { key } = examplePayment(number);
  const summaries = await ledger.books.list({ limit: 100 });
  return summaries.find((each) => each.key === key)?.state ?? "(none)";
}
