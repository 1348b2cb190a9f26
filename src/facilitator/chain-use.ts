/**
 * A use of an authorization that the chain shows, for a payment that was handed to a facilitator elsewhere:
 * whose is it? Anybody may have put it there, and another gateway of the same payee may have sold for it.
 *
 *     in a transaction of that facilitator
 *        │   └── its refusals are final ── asked again with the same key: its answer counts
 *        │   └── otherwise ────────────── ours: it cannot be told apart from its success for another
 *        │                                (held where it may have been there before the hand-over)
 *        └── in somebody else's ───────── held for the operator, or counted (`facilitator.foreign`)
 */
import type { HandedTo } from "./handed.ts";
import type { AskedFacilitator } from "./handed.ts";
import type { Observer } from "../mechanism/mechanism.ts";
import type { Logger } from "../telemetry/logger.ts";
import { sooner, type Time } from "../time/time.ts";
import type { FacilitatorRequest, SettleResponse } from "../x402/x402.ts";
import { FacilitatorFault, HeldPayment, type ForeignRule } from "../payments/facilitator.ts";
import { messageOf } from "../x402/result.ts";

/** Longest that a facilitator may take to tell its accounts, milliseconds. */
const TELL_TIMEOUT_MS = 3_000;
/** So long what it told is not asked for again, milliseconds. */
const TOLD_MS = 60_000;

/** As the chain shows it. */
export interface SeenUse {
  readonly transaction: string;
  readonly sender?: string | undefined;
  /** It may have been there before the hand-over: only its facilitator can say whether it is another sale's. */
  readonly isUndated?: true;
}

export interface ChainUseOptions {
  readonly observers: ReadonlyMap<string, Observer>;
  readonly foreign: ForeignRule;
  readonly time: Time;
  readonly logger: Logger;
}

/**
 * Undefined: it counts as the settlement that was asked for; else the facilitator's own answer, which does.
 * @throws {HeldPayment} where nobody can say whose it is
 * @throws {FacilitatorFault} `unknown`, where the facilitator has to say and cannot be asked
 */
export async function weighUse(
  use: SeenUse,
  request: FacilitatorRequest,
  handed: HandedTo,
  options: ChainUseOptions,
): Promise<SettleResponse | undefined> {
  const { asked } = handed;
  const { network } = request.paymentRequirements;
  const isTheirs = asked !== undefined && (await isFrom(asked, use, { network, handed, options }));
  if (isTheirs && asked.remote.word.isFinal(network)) {
    // The money has moved: to ask again charges nobody, and with the same key it is the same answer.
    const { idempotencyKey, signal, onHandOver } = handed;
    await onHandOver?.(asked.remote.name, null);
    try {
      return await asked.send(
        () => asked.remote.settle(request, { signal, idempotencyKey }),
        signal,
      );
    } catch (cause) {
      const words = messageOf(cause);
      const message = `on the chain, and its facilitator does not say for whom: ${words}`;
      throw new FacilitatorFault("unknown", "unexpected_settle_error", message, { cause });
    }
  }
  const { transaction, sender, isUndated = false } = use;
  if (!isUndated && (isTheirs || options.foreign === "deliver")) return undefined;
  const facilitator = asked?.remote.name;
  const said = isUndated
    ? "a payment is on chain, and may have been before it was handed over: held"
    : "a payment is on chain in a transaction that is not its facilitator's: held";
  options.logger.error({ network, transaction, sender, facilitator }, said);
  throw new HeldPayment(transaction);
}

interface Question {
  readonly network: string;
  readonly handed: HandedTo;
  readonly options: ChainUseOptions;
}

async function isFrom(
  { remote }: AskedFacilitator,
  { sender }: SeenUse,
  { network, handed, options }: Question,
): Promise<boolean> {
  const { word, feePayers } = remote;
  const isKnown = (): boolean =>
    sender !== undefined &&
    (word.hasSigner(network, sender) || feePayers.has(network, sender) === true);
  const { time, logger, observers } = options;
  const signal = sooner(handed.signal, time.timeout(TELL_TIMEOUT_MS));
  const isStale = time.now() - (word.heardMs ?? -Infinity) > TOLD_MS;
  if (word.heardMs === undefined || (!isKnown() && isStale)) {
    await remote.supported(signal).catch((cause: unknown) => {
      logger.warn(
        { err: cause, facilitator: remote.name },
        "a facilitator does not tell its accounts",
      );
    });
  }
  const observer = observers.get(network);
  if (isKnown() || observer?.senderOf === undefined) return isKnown();
  for (const transaction of word.takeUnread(network)) {
    try {
      const account = await observer.senderOf(transaction, handed.signal);
      if (account !== undefined) word.learn(network, account);
    } catch (cause) {
      word.remember(network, transaction);
      logger.warn({ err: cause, network, transaction }, "a settlement's account could not be read");
    }
  }
  return isKnown();
}
