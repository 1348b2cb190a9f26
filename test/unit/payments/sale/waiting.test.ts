/** Few wait for the same payment, and nobody whose client has left. */
import { describe, expect, it, vi } from "vitest";
import {
  ABANDONED,
  IN_FLIGHT,
  type Admission,
  type Presented,
} from "../../../../src/payments/sale/admission.ts";
import { MAX_WAITING_FOR_ONE, Waiting } from "../../../../src/payments/sale/waiting.ts";
import { paidOf, paywallStage, presented, tell } from "./paywall-stage.ts";

const BROKEN = { sent: true, served: null } as const;

/** A client that may leave. */
function client() {
  const listeners = new Set<() => void>();
  let isLeft = false;
  return {
    leave: (): void => {
      isLeft = true;
      for (const listener of listeners) listener();
    },
    isGone: () => isLeft,
    onGone: (listener: () => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Who hears that it leaves. */
    listeners,
  };
}

/** Notes what is told, as it is told. */
function toldIn(told: string[]) {
  return (admission: Promise<Admission>) => void admission.then((each) => told.push(tell(each)));
}

describe.each([
  ["a payment in delivery", (): Presented => presented(1), MAX_WAITING_FOR_ONE],
  // One of them collects, and the others wait for it.
  ["what its payer is owed, with a new payment", () => presented(2), MAX_WAITING_FOR_ONE + 1],
])("requests for %s", (_name, ask, most) => {
  /** One is in delivery, and as many as may wait for it. */
  async function crowd() {
    const { paywall, time } = await paywallStage();
    const first = paidOf(await paywall.admit(presented(1)));
    await first.undelivered(BROKEN);
    const paid = paidOf(await paywall.admit(ask()));
    const clients = Array.from({ length: most }, client);
    const told: string[] = [];
    for (const each of clients) toldIn(told)(paywall.admit({ ...ask(), ...each }));
    await time.advance(0);
    return { paywall, paid, clients, told, time };
  }

  it("wait in small number, and the next is told at once that it is in flight", async () => {
    const { paywall, paid, told } = await crowd();
    expect(told).toEqual([]);
    expect(await paywall.admit(ask())).toEqual(IN_FLIGHT);
    await paid.undelivered(BROKEN);
    await expect.poll(() => told).toEqual(["admitted"]);
  });

  it("end as their clients leave, and make room for others", async () => {
    const { paywall, paid, clients, told, time } = await crowd();
    for (const each of clients) each.leave();
    await expect.poll(() => told).toEqual(clients.map(() => "abandoned"));
    expect(clients.flatMap(({ listeners }) => [...listeners])).toEqual([]);
    toldIn(told)(paywall.admit(ask()));
    await time.advance(0);
    expect(told).toHaveLength(most);
    await paid.undelivered(BROKEN);
    await expect.poll(() => told.at(-1)).toBe("admitted");
  });
});

it("who has left before it waits does not", async () => {
  const { paywall } = await paywallStage();
  paidOf(await paywall.admit(presented(1)));
  const gone = client();
  gone.leave();
  expect(tell(await paywall.admit(presented(1, gone)))).toBe("abandoned");
});

it("who waits and leaves leaves nothing behind", async () => {
  const waiting = new Waiting();
  const { promise: flight, resolve: land } = Promise.withResolvers<void>();
  const listened = vi.spyOn(flight, "then");
  const wait = (of: ReturnType<typeof client>) =>
    waiting.for(flight, of, new AbortController().signal);
  for (let times = 0; times < 5; times += 1) {
    const leaving = client();
    const told = wait(leaving);
    leaving.leave();
    expect(await told).toBe(ABANDONED);
  }
  const staying = wait(client());
  expect(listened).toHaveBeenCalledOnce();
  land();
  expect(await staying).toBeUndefined();
  // What comes when it is over is told so, too.
  expect(await wait(client())).toBeUndefined();
});
