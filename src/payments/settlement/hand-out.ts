/** What waits, handed to the senders that have room, where there is a place for it. */
import type { Time } from "../../time/time.ts";
import type { AccountSender } from "./account-sender.ts";
import type { PaymentQueue, Taking } from "./payment-queue.ts";
import type { Places } from "./places.ts";

export interface HandOut {
  readonly queue: PaymentQueue;
  readonly places: Places;
  readonly time: Pick<Time, "now">;
}

/**
 * The sender with the least in the air comes first.
 * @returns milliseconds since the epoch: when to do it again, though nothing else happens until then
 */
export function handOut(
  senders: Iterable<AccountSender>,
  { queue, places, time }: HandOut,
): number | undefined {
  const admits: Taking["admits"] = (item, beside) => places.admits(item, beside);
  const free = freeOf(senders);
  for (const sender of free) {
    const [account, isIdle] = [sender.lease.address, sender.openCount === 0];
    const items = queue.take({ account, nowMs: time.now(), isIdle, admits });
    if (items.length === 0) continue;
    for (const { pending } of items) pending.bind();
    places.take(items);
    sender.sign(items);
  }
  const dueMs = free.length > 0 ? queue.dueMs(admits) : undefined;
  const firstMs = Math.min(dueMs ?? Infinity, queue.crowdUntilMs ?? Infinity);
  return firstMs === Infinity ? undefined : firstMs;
}

function freeOf(senders: Iterable<AccountSender>): readonly AccountSender[] {
  const free = [...senders].filter(({ canTake }) => canTake);
  return free.sort(
    (left, right) =>
      Number(left.isShort) - Number(right.isShort) || left.openCount - right.openCount,
  );
}
