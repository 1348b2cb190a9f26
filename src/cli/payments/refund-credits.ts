/** `coinslot payments FILE --refund-credits PAYER`: what a buyer has prepaid and not used goes back to him. */
import { operatorName } from "../../app/resolutions.ts";
import { refundCreditsOf, type CreditsRefund } from "../../app/refunding-credits.ts";
import type { Config } from "../../config/config.ts";
import { toJson } from "./payment-text.ts";

/** Longest text of a note, characters. */
const MAX_NOTE = 500;

export interface RefundCreditsOptions {
  readonly json?: boolean;
  readonly network?: string;
  /** `$1.50` */
  readonly amount?: string;
  readonly byHand?: boolean;
  readonly note?: string;
}

/** Resolves with the exit code: 0 where all of it is asked for. */
export async function refundCredits(
  config: Config,
  payer: string,
  { json, network, amount, byHand = false, note = "" }: RefundCreditsOptions,
): Promise<number> {
  const order = { payer, network, amount, isByHand: byHand, note: note.slice(0, MAX_NOTE) };
  const done = await refundCreditsOf(config, { ...order, by: operatorName() });
  if (json) process.stdout.write(toJson(viewOf(done)));
  if (done.kind === "refused") {
    if (!json) process.stderr.write(`not refunded: ${done.reason}\n`);
    return 1;
  }
  const isDone = done.refunds.every(({ resolved }) => resolved.kind === "done");
  if (json) return isDone ? 0 : 1;
  for (const refund of done.refunds) tell(refund, byHand);
  if (isDone && !byHand) process.stdout.write(TO_BE_SENT);
  if (done.left !== null) process.stderr.write(`$${done.left} stay in the balance: ${LEFT}\n`);
  return isDone ? 0 : 1;
}

function tell({ amount, symbol, network, key, resolved }: CreditsRefund, byHand: boolean): void {
  const what = `${amount} ${symbol} on ${network}, of ${key}`;
  if (resolved.kind === "refused")
    process.stderr.write(`not refunded: ${what}: ${resolved.reason}\n`);
  else process.stdout.write(`${byHand ? "marked as paid back" : "to be refunded"}: ${what}\n`);
}

function viewOf(done: Awaited<ReturnType<typeof refundCreditsOf>>): object {
  if (done.kind === "refused") return { refused: done.reason, refunds: [], left: null };
  const refunds = done.refunds.map(({ amountAtomic, ...rest }) => ({
    ...rest,
    amountAtomic: String(amountAtomic),
  }));
  return { refused: null, refunds, left: done.left };
}

const TO_BE_SENT =
  "it is out of the balance, and a running gateway sends it once the payments that have bought it are final; `--show` of each " +
  "tells its transaction. What cannot be sent is in the balance again\n";

const LEFT =
  "no payment is left that has bought them and can be paid back, on networks for which `refunds` has a key";
