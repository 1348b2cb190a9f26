/** The embedded facilitator on a real ledger in memory, before a scripted chain, in time that a test moves. */
import type { Verified } from "../../../../src/payments/facilitator.ts";
import { onTheWire } from "../../../../src/facilitator/wire-facilitator.ts";
import type { ForeignRule } from "../../../../src/payments/facilitator.ts";
import { onTestFinished } from "vitest";
import {
  EmbeddedFacilitator,
  type EmbeddedOptions,
} from "../../../../src/payments/settlement/embedded.ts";
import {
  LedgerUnavailable,
  type Ledger,
  type TransitionKind,
} from "../../../../src/ledger/ledger.ts";
import type { Mechanism } from "../../../../src/mechanism/mechanism.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { Metrics } from "../../../../src/telemetry/metrics.ts";
import { checksumAddress } from "../../../../src/x402/address.ts";
import { isEvmPayload, paymentKey, type PaymentKey } from "../../../../src/x402/payment-key.ts";
import type { FacilitatorRequest, SettleResponse } from "../../../../src/x402/x402.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { over } from "../../../support/over.ts";
import { exampleRequest, PAYER } from "./example-request.ts";
import { ACCOUNT, ScriptedChain, type ScriptOptions } from "./scripted-mechanism.ts";

export interface EngineStage {
  readonly facilitator: EmbeddedFacilitator;
  readonly ledger: Ledger;
  readonly metrics: Metrics;
  readonly lines: readonly string[];
  readonly chain: ScriptedChain;
  readonly time: ManualTime;
}

export interface EngineStageOptions extends ScriptOptions {
  readonly chain?: ScriptedChain;
  readonly time?: ManualTime;
  readonly foreign?: ForeignRule;
  /** Default: SQLite in memory. */
  readonly on?: Ledger;
  /** Methods of parts of the ledger that do something else. */
  readonly ledger?: {
    readonly signing?: Partial<Ledger["signing"]>;
    readonly queues?: Partial<Ledger["queues"]>;
    readonly upkeep?: Partial<Ledger["upkeep"]>;
  };
  /** Before each transition that is asked of the ledger; what it throws is what the ledger throws. */
  readonly onStep?: (kind: TransitionKind) => unknown;
  readonly isOpen?: () => boolean;
  /** Default: as {@link isOpen}. */
  readonly isTrusted?: () => boolean;
  /** Whether accounts without a key are watched, and where not, why; default: they are not looked for. */
  readonly follows?: "everything" | "nothing";
  /** Whether the network is settled elsewhere by now. */
  readonly isMoved?: boolean;
  /** Whether a round of recovery has run before the test begins; default: true. */
  readonly isStarted?: boolean;
}

export async function openEngine(options: EngineStageOptions = {}): Promise<EngineStage> {
  const { chain = new ScriptedChain(), time = new ManualTime() } = options;
  const ledger = options.on ?? (await openSqliteLedger({ path: ":memory:", time, life: "life" }));
  const metrics = new Metrics("test");
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  const facilitator = new EmbeddedFacilitator({
    ...chainsOf(chain.mechanism(options), options),
    ledger: overriding(ledger, options),
    gate: {
      isOpen: options.isOpen ?? (() => true),
      isTrusted: options.isTrusted ?? options.isOpen ?? (() => true),
    },
    telemetry: { logger, metrics },
    time,
    foreign: options.foreign,
    describeAsset: () => ({ symbol: "USDC", decimals: 6 }),
    nativePrice: () => 2_000n * 10n ** 18n,
  });
  onTestFinished(async () => {
    await facilitator.close();
    await ledger.close();
  });
  if (options.isStarted ?? true) await facilitator.recover();
  return { facilitator, ledger, metrics, lines, chain, time };
}

function chainsOf(
  mechanism: Mechanism,
  { follows, isMoved = false }: EngineStageOptions,
): Pick<EmbeddedOptions, "mechanisms" | "followers"> {
  const mechanisms = isMoved ? [] : [mechanism];
  if (follows === undefined) return { mechanisms };
  const followed = follows === "everything" ? [mechanism] : [];
  return { mechanisms, followers: new Map(followed.map((each) => [each.network, each])) };
}

/** The real ledger with some methods replaced. */
function overriding(real: Ledger, { ledger = {}, onStep }: EngineStageOptions): Ledger {
  const step: Ledger["step"] = async (key, transition) => {
    await onStep?.(transition.kind);
    return real.step(key, transition);
  };
  const { signing = {}, queues = {}, upkeep = {} } = ledger;
  return over(real, {
    signing: over(real.signing, signing),
    queues: over(real.queues, queues),
    upkeep: over(real.upkeep, upkeep),
    ...(onStep && { step }),
  });
}

/** The nonce of payment `number`, as the script knows it. */
export const nonceOf = (number: number): string => `0x${String(number).padStart(64, "0")}`;

/** A payment like the example with a nonce of its own, by payer `payer` or the example's. */
export function payment(number: number, payer = 0): FacilitatorRequest {
  const { paymentPayload, paymentRequirements } = exampleRequest;
  const { payload } = paymentPayload;
  if (!isEvmPayload(payload)) throw new Error("an EVM payment");
  const authorization = {
    ...payload.authorization,
    from: payerAddress(payer),
    nonce: nonceOf(number),
  };
  return {
    paymentPayload: { ...paymentPayload, payload: { ...payload, authorization } },
    paymentRequirements,
  };
}

export function payerAddress(payer: number): string {
  return payer === 0 ? PAYER : checksumAddress(`0x${String(payer).padStart(40, "0")}`);
}

export function keyOf(request: FacilitatorRequest): PaymentKey {
  const key = paymentKey(request);
  if (!key.ok) throw new Error(key.error.detail);
  return key.value;
}

/** Settles; resolves with the answer, or with the kind of the fault. The answer needs time to pass. */
export function settle(
  { facilitator, time }: EngineStage,
  request: FacilitatorRequest,
  options: {
    readonly key?: string;
    readonly patienceMs?: number;
    readonly verified?: Verified;
  } = {},
): Promise<SettleResponse> {
  const { key, patienceMs = 30_000, verified } = options;
  const settling = onTheWire(facilitator).settle(request, {
    signal: time.timeout(patienceMs),
    verified,
    ...(key === undefined ? {} : { idempotencyKey: key }),
  });
  // A test that fails before it looks at the answer is not to fail twice.
  settling.catch(() => undefined);
  return settling;
}

export const unavailable = () => Promise.reject(new LedgerUnavailable("disk full"));

/** The submissions of our first account that are not closed. */
export const unfinished = ({ ledger }: EngineStage, account = ACCOUNT) =>
  ledger.signing.unfinished("base-sepolia", account);

/** A counter's samples, without the comments. */
export async function samplesOf(metrics: Metrics, name: string): Promise<readonly string[]> {
  const text = await metrics.registry.metrics();
  return text.split("\n").filter((line) => line.split(/[{ ]/, 1)[0] === name);
}

/** Numbers of payments, or of payers. */
export const range = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_, index) => from + index);
/** Transactions sent so far. */
export const sentCount = ({ chain }: EngineStage): number => new Set(chain.sent).size;

/** Mines until they are answered. */
export async function mineUntil<Value>(at: EngineStage, answer: Promise<Value>): Promise<Value> {
  let isAnswered = false;
  void answer.catch(() => undefined).finally(() => (isAnswered = true));
  await at.time.until(() => {
    at.chain.mine();
    return isAnswered;
  });
  return answer;
}
