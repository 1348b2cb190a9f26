/** What the process with the money, and the operator beside it, do with a ledger of any age, and how long that takes. */
import type { Ledger } from "../../src/ledger/ledger.ts";
import { openSqliteBooks } from "../../src/ledger/sqlite/sqlite-books.ts";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import type { SweepPlace } from "../../src/ledger/sweep.ts";
import { systemTime } from "../../src/time/time.ts";
import { paymentKey } from "../../src/x402/payment-key.ts";
import { examplePayment, type ExamplePayment } from "../unit/ledger/example-payment.ts";
import { ACCOUNT, NETWORK, termsOf, takeOffers } from "../unit/ledger/ledger-driver.ts";

/** Payments that are claimed or sold in one round, whose mean counts; and those before, as in a process that runs. */
const PAYMENTS = 50;
const WARM_UP = 100;

/** By what was done, milliseconds. */
export type Times = Readonly<Record<string, number>>;

/** A payment that no ledger has seen. */
function freshPayment(): ExamplePayment {
  const { request } = examplePayment(1);
  const nonce = `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`;
  const fresh: typeof request = JSON.parse(
    JSON.stringify(request).replaceAll(`0x${"1".padStart(64, "0")}`, nonce),
  );
  const key = paymentKey(fresh);
  if (!key.ok) throw new Error(key.error.detail);
  return { key: key.value, request: fresh };
}

export async function timeLedger(path: string): Promise<Times> {
  const times: Record<string, number> = {};
  const timed = async <Value>(
    name: string,
    run: () => Promise<Value>,
    count = 1,
  ): Promise<Value> => {
    const started = performance.now();
    const value = await run();
    times[name] = (performance.now() - started) / count;
    return value;
  };
  const open = () => openSqliteLedger({ path, time: systemTime, life: crypto.randomUUID() });
  const ledger = await timed("start", async () => {
    const opened = await open();
    await opened.signing.unfinished(NETWORK, ACCOUNT);
    await opened.queues.handedOvers(100);
    await takeOffers(opened, NETWORK, 100);
    await opened.books.counts();
    return opened;
  });
  for (let count = 0; count < WARM_UP; count += 1) {
    const { key, request } = freshPayment();
    await ledger.step(key, { kind: "claim", terms: termsOf({ request }) });
    await ledger.step(key, { kind: "released" });
  }
  const fresh = Array.from({ length: PAYMENTS }, freshPayment);
  await timed(
    "claim",
    () => inTurn(fresh, (each) => ledger.step(each.key, { kind: "claim", terms: termsOf(each) })),
    PAYMENTS,
  );
  await timed(
    "release",
    () => inTurn(fresh, ({ key }) => ledger.step(key, { kind: "released" })),
    PAYMENTS,
  );
  await timed("sale", () => inTurn(fresh, (each) => sell(ledger, each)), PAYMENTS);
  await timed("list", () => ledger.books.list({ limit: 50 }));
  await timed("watch", async () => {
    await ledger.signing.unattended();
    const waiting = await ledger.books.list({ states: ["SIGNED"], limit: 1_000 });
    for (const { key } of waiting) await ledger.books.show(key);
  });
  await timed("counts", () => ledger.books.counts());
  await ledger.close();
  await timed("payments", async () => {
    const books = await openSqliteBooks({ path });
    const [newest] = await books.list({ limit: 50 });
    const payer = newest?.payer ?? "";
    await books.list({ limit: 50, states: ["FAILED"] });
    await books.list({ limit: 50, states: ["SIGNED", "SETTLED"] });
    await books.list({ limit: 50, undelivered: true });
    await books.list({ limit: 50, network: "polygon" });
    await books.list({ limit: 50, payer });
    await books.list({ limit: 50, sinceMs: Date.now() - 3_600_000 });
    await books.show(newest?.transaction ?? "");
    await books.buried("nobody's");
    await books.close();
  });
  return times;
}

/** From the claim to the delivery, as with a facilitator elsewhere. */
async function sell(ledger: Ledger, payment: ExamplePayment): Promise<void> {
  const { key } = payment;
  await ledger.step(key, { kind: "claim", terms: termsOf(payment) });
  await ledger.step(key, { kind: "handedOver", facilitator: "https://facilitator.example.com" });
  const transaction = key.slice(key.lastIndexOf("/") + 1);
  await ledger.step(key, {
    kind: "settled",
    settlement: { transaction, network: NETWORK, payer: "0x01" },
  });
  await ledger.step(key, { kind: "delivering" });
  await ledger.step(key, { kind: "delivered" });
}

async function inTurn<Value>(
  values: readonly Value[],
  step: (value: Value) => Promise<unknown>,
): Promise<void> {
  for (const value of values) await step(value);
}

/** The CPU time of each step of a sweep, milliseconds, which is what it stops the process for; until so many are gone. */
export async function timeSweep(path: string, payments: number): Promise<readonly number[]> {
  const ledger = await openSqliteLedger({ path, time: systemTime, life: crypto.randomUUID() });
  const steps: number[] = [];
  let swept = 0;
  for (let from: SweepPlace | undefined; swept < payments;) {
    const before = process.cpuUsage();
    const step = await ledger.upkeep.sweep({ beforeMs: Date.now(), from, archive: undefined });
    const { user, system } = process.cpuUsage(before);
    steps.push((user + system) / 1000);
    swept += step.payments;
    from = step.next;
    if (from === undefined) break;
  }
  await ledger.close();
  return steps;
}
