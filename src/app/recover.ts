/**
 * Recovery without serving: every settlement whose outcome is not known is looked for, round after round,
 * until none is left or the time is over.
 */
import type { Config } from "../config/config.ts";
import type { OrphanedSigner } from "../payments/settlement/keyless-accounts.ts";
import type { PaymentDetail, PaymentSummary } from "../ledger/books.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { PUT_BACK } from "../payments/settlement/submission-watch.ts";
import { createLogger } from "../telemetry/logger.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { systemTime } from "../time/time.ts";
import { openFacilitation, type Facilitation } from "./facilitation.ts";
import { startRecoveries } from "./recoveries.ts";
import { openLedger } from "./store.ts";

export {
  describeOrphanedSigner,
  type OrphanedSigner,
} from "../payments/settlement/keyless-accounts.ts";

/** Pause between two looks at what is left, milliseconds. */
const LOOK_PAUSE_MS = 250;
/** Unresolved payments that are followed by name; the counts know of all. */
const MAX_FOLLOWED = 10_000;

export interface Outcome {
  readonly before: PaymentSummary;
  /** Undefined where the claim was dropped: nothing had been signed. */
  readonly after: PaymentDetail | undefined;
}

export interface Unresolved {
  readonly payment: PaymentSummary;
  /** Why it is not resolved yet, a sentence without a final period. */
  readonly reason: string;
}

export interface RecoverOptions {
  readonly version: string;
  readonly timeoutMs: number;
  /** Told first: accounts whose key is not in this configuration, and that left something open. */
  readonly onStranger: (stranger: OrphanedSigner) => void;
  /** Told as soon as it is known. */
  readonly onOutcome: (outcome: Outcome) => void;
  /** Told at each look how many are left. */
  readonly onLook: (left: number) => void;
}

/** Resolves with what is left. Throws where the ledger or the networks cannot be opened. */
export async function recoverAll(
  config: Config,
  { version, timeoutMs, onStranger, onOutcome, onLook }: RecoverOptions,
): Promise<readonly Unresolved[]> {
  await using closing = new AsyncDisposableStack();
  const time = systemTime;
  const signal = time.timeout(timeoutMs);
  const logger = createLogger({ level: "error", format: "json", destination: process.stderr });
  const telemetry = { logger, metrics: new Metrics(version) };
  const ledger = await openLedger(config, { logger, time });
  closing.defer(() => ledger.close());
  const followed = new Map((await unresolvedIn(ledger)).map((each) => [each.key, each]));
  const ground = { ledger, telemetry, time };
  const facilitation = await openFacilitation(config, ground, closing);
  const strangers = await facilitation.embedded.strangers();
  for (const stranger of strangers) onStranger(stranger);
  const { deny } = config.payers;
  startRecoveries(facilitation, { ...ground, isBarred: deny.has.bind(deny) }, closing);
  for (;;) {
    const left = await unresolvedIn(ledger);
    // Reports what became of the payments that were followed and are not left, each once.
    const open = new Set(left.map(({ key }) => key));
    for (const [key, before] of followed) {
      if (open.has(key)) continue;
      followed.delete(key);
      onOutcome({ before, after: await ledger.books.show(key) });
    }
    onLook(left.length);
    if (left.length === 0 || signal.aborted) {
      const details = await Promise.all(left.map(({ key }) => ledger.books.show(key)));
      return details
        .filter((payment) => payment !== undefined)
        .map((payment) => ({ payment, reason: reasonOf(payment, facilitation) }));
    }
    await time.sleep(LOOK_PAUSE_MS, signal);
  }
}

/** Payments that were signed or handed over, or that wait for somebody who can sign. */
async function unresolvedIn({ books }: Pick<Ledger, "books">): Promise<readonly PaymentSummary[]> {
  const { offered } = await books.counts();
  const states = offered === 0 ? (["SIGNED"] as const) : (["SIGNED", "CLAIMED"] as const);
  return books.list({ states, held: false, limit: MAX_FOLLOWED });
}

function reasonOf(
  { network, facilitator, submission }: PaymentDetail,
  { gate, mechanisms, observers, probes }: Facilitation,
): string {
  if (submission === null && facilitator !== null) {
    const asked = `${facilitator} has not said for certain what became of it`;
    return observers.has(network)
      ? `${asked}, and the chain does not show it`
      : `${asked}; with facilitator.rpc.${network} the chain can be asked`;
  }
  const mechanism = mechanisms.find((each) => each.network === network);
  if (!observers.has(network)) {
    return `${network} has no endpoint here; with facilitator.rpc.${network} the chain can be asked`;
  }
  if (mechanism !== undefined && !gate.isOpen(network)) {
    const findings = probes.find((probe) => probe.network === network)?.findings ?? [];
    return findings.map(({ message }) => message).join("; ") || `${network} cannot be checked`;
  }
  const hasKey = submission === null || mechanism?.accounts.includes(submission.account) === true;
  if (hasKey) return UNDECIDED;
  return `${UNDECIDED}; ${submission.account} signed it, whose key is not here: ${IF_STUCK}`;
}

const UNDECIDED =
  "the chain has not decided it yet; nothing is unknown after the authorization has expired";
const IF_STUCK = `it is sent again, but if it is stuck it cannot be replaced: ${PUT_BACK}`;
