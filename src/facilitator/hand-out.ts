/** What waits, handed to the lanes that have room, where there is a place for it. */
import type { Time } from "../time/time.ts";
import type { Lane } from "./lane.ts";
import type { PaymentQueue, Taking } from "./payment-queue.ts";
import type { Places } from "./places.ts";

export interface HandOut {
  readonly queue: PaymentQueue;
  readonly places: Places;
  readonly time: Pick<Time, "now">;
}

/**
 * The lane with the least in the air comes first.
 * @returns milliseconds since the epoch: when to do it again, though nothing else happens until then
 */
export function handOut(
  lanes: Iterable<Lane>,
  { queue, places, time }: HandOut,
): number | undefined {
  const admits: Taking["admits"] = (item, beside) => places.admits(item, beside);
  const free = freeOf(lanes);
  for (const lane of free) {
    const [account, isIdle] = [lane.lease.address, lane.openCount === 0];
    const items = queue.take({ account, nowMs: time.now(), isIdle, admits });
    if (items.length === 0) continue;
    for (const { flight } of items) flight.bind();
    places.take(items);
    lane.sign(items);
  }
  const dueMs = free.length > 0 ? queue.dueMs(admits) : undefined;
  const firstMs = Math.min(dueMs ?? Infinity, queue.crowdUntilMs ?? Infinity);
  return firstMs === Infinity ? undefined : firstMs;
}

function freeOf(lanes: Iterable<Lane>): readonly Lane[] {
  const free = [...lanes].filter(({ canTake }) => canTake);
  return free.sort(
    (left, right) =>
      Number(left.isShort) - Number(right.isShort) || left.openCount - right.openCount,
  );
}
