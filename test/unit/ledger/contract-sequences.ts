/**
 * Random sequences of operations, restarts and passing time, on the ledger and on the one in memory, which
 * is the state machine and nothing else: whatever a database stores and reads has to come out the same.
 */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { MemoryLedger, MemoryStore } from "../../support/memory-ledger.ts";
import { Place } from "./contract-place.ts";
import { examplePayment, type ExamplePayment } from "./example-payment.ts";
import {
  ANSWER,
  ASKED,
  BINDING,
  CALLER,
  FACILITATOR,
  FAILURE,
  forged,
  NETWORK,
  ACCOUNT,
  OTHER_BINDING,
  OTHER_TARGET,
  repriced,
  SETTLEMENT,
  SALE,
  sign,
  sweep,
  TARGET,
  termsOf,
  replayed,
  takeOffers,
} from "./ledger-driver.ts";
import { effort } from "../../support/effort.ts";

const PAYMENTS = [examplePayment(1), examplePayment(2), examplePayment(3)];
const RUNS = effort(12, 30);

type Operation = (ledger: Ledger) => Promise<unknown>;

interface Step {
  readonly name: string;
  readonly run: Operation | { readonly passMs: number } | "restart";
}

const payment = fc.constantFrom(...PAYMENTS);
const target = fc.constantFrom(TARGET, TARGET, OTHER_TARGET);
const mostly = fc.constantFrom(true, true, true, false);

function plain(name: string, run: (ledger: Ledger, each: ExamplePayment) => Promise<unknown>) {
  return payment.map((each): Step => ({ name, run: (ledger) => run(ledger, each) }));
}

const claims = fc
  .record({ each: payment, target, genuine: mostly, other: fc.boolean() })
  .map(({ each, target: asked, genuine, other }): Step => {
    const request = genuine ? each.request : forged(each.request);
    const terms = termsOf({ request }, { target: asked, binding: other ? OTHER_BINDING : BINDING });
    return { name: "claim", run: (ledger) => ledger.step(each.key, { kind: "claim", terms }) };
  });

const begins = fc
  .record({
    each: payment,
    genuine: mostly,
    same: mostly,
    caller: fc.constantFrom(CALLER, "x", ""),
  })
  .map(({ each, genuine, same, caller }): Step => {
    const request = genuine ? each.request : forged(each.request);
    const asked = same ? request : repriced(request);
    const key = caller === "" ? undefined : caller;
    return {
      name: `begin ${key}`,
      run: (ledger) => ledger.step(each.key, { kind: "begin", request: asked, caller: key }),
    };
  });

const broken = fc
  .record({ each: payment, sent: fc.boolean(), served: fc.constantFrom(null, TARGET) })
  .map(({ each, sent, served }): Step => {
    return {
      name: "undelivered",
      run: (ledger) => ledger.step(each.key, { kind: "undelivered", broken: { sent, served } }),
    };
  });

const sold = fc.record({ each: payment, target }).map(({ each, target: asked }): Step => ({
  name: "delivered, kept",
  run: (ledger) =>
    ledger.step(each.key, {
      kind: "delivered",
      sold: { ...ASKED, target: asked, response: ANSWER },
    }),
}));

const submissions = fc
  .record({ index: fc.nat(3), state: fc.constantFrom("OPEN", "INCLUDED", "CLOSED") })
  .map(({ index, state }): Step => {
    const run: Operation = async (ledger) => {
      const id = (await ledger.signing.unfinished(NETWORK, ACCOUNT))[index]?.id;
      if (id !== undefined) await ledger.signing.concluded(id, state);
    };
    return { name: `submission ${index} is ${state}`, run };
  });

const steps = fc.oneof(
  { weight: 3, arbitrary: claims },
  begins,
  plain("handedOver", (ledger, { key }) =>
    ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR }),
  ),
  { weight: 3, arbitrary: plain("signed", (ledger, each) => sign(ledger, [each])) },
  plain("signed together", (ledger) => sign(ledger, PAYMENTS.slice(0, 2))),
  {
    weight: 3,
    arbitrary: plain("settled", (ledger, { key }) =>
      ledger.step(key, { kind: "settled", settlement: SETTLEMENT }),
    ),
  },
  plain("failed", (ledger, { key }) => ledger.step(key, { kind: "failed", failure: FAILURE })),
  plain("withdrawn", (ledger, { key }) => ledger.step(key, { kind: "withdrawn" })),
  plain("released", (ledger, { key }) => ledger.step(key, { kind: "released" })),
  plain("abandoned", (ledger, { key }) => ledger.step(key, { kind: "abandoned" })),
  plain("offer", (ledger, { key }) => ledger.step(key, { kind: "offer" })),
  plain("takeOffered", (ledger) => takeOffers(ledger, NETWORK, 2)),
  {
    weight: 3,
    arbitrary: plain("delivering", (ledger, { key }) => ledger.step(key, { kind: "delivering" })),
  },
  plain("delivered", (ledger, { key }) => ledger.step(key, { kind: "delivered" })),
  { weight: 2, arbitrary: sold },
  broken,
  {
    weight: 2,
    arbitrary: plain("replay", (ledger, { key }) => replayed(ledger, key)),
  },
  submissions,
  fc.constant<Step>({ name: "sweep", run: (ledger) => sweep(ledger, Number.MAX_SAFE_INTEGER) }),
  fc.nat(400_000).map((passMs): Step => ({ name: `${passMs} ms pass`, run: { passMs } })),
  fc.constant<Step>({ name: "restart", run: "restart" }),
);

export function describeSequences(open: OpenLedger): void {
  it(
    "does what the state machine does, for any sequence of operations",
    { timeout: 60_000 },
    async () => {
      const property = fc.asyncProperty(
        fc.array(steps, { maxLength: 50, size: "max" }),
        async (sequence) => {
          const place = new Place(open);
          const store = new MemoryStore();
          const lives = async (life: string): Promise<readonly [Ledger, Ledger]> => {
            const pair = [
              await place.live(life),
              new MemoryLedger({ store, life, time: place.time }),
            ] as const;
            for (const ledger of pair) await ledger.upkeep.reap();
            return pair;
          };
          let pair = await lives("life 0");
          try {
            for (const [index, { name, run }] of sequence.entries()) {
              place.time.nowMs += 1;
              if (run === "restart") {
                for (const ledger of pair) await ledger.close();
                pair = await lives(`life ${index + 1}`);
              } else if (typeof run === "object") place.time.nowMs += run.passMs;
              else {
                const [real, model] = [await answer(run, pair[0]), await answer(run, pair[1])];
                expect({ name, real }).toEqual({ name, real: model });
              }
              expect({ name, ...(await stateOf(pair[0])) }).toEqual({
                name,
                ...(await stateOf(pair[1])),
              });
            }
          } finally {
            await place.close();
          }
        },
      );
      await fc.assert(property, { numRuns: RUNS });
    },
  );
}

async function answer(run: Operation, ledger: Ledger): Promise<unknown> {
  try {
    const value = await run(ledger);
    return value === undefined ? "nothing" : value;
  } catch (error) {
    return error instanceof Error ? error.name : error;
  }
}

/** All that a ledger can be asked without changing it. */
async function stateOf(ledger: Ledger): Promise<Readonly<Record<string, unknown>>> {
  const shown = [];
  for (const { key, request } of PAYMENTS) {
    const detail = await ledger.books.show(key);
    const recalled = await ledger.recall(request.paymentPayload, SALE);
    shown.push({ ...detail, claimedMs: 0, recalled, outcome: await ledger.outcome(key) });
  }
  return {
    shown,
    counts: await ledger.books.counts(),
    nonce: await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT),
    unfinished: (await ledger.signing.unfinished(NETWORK, ACCOUNT)).map(
      ({ payments, ...rest }) => ({
        ...rest,
        payments: payments.toSorted((left, right) => left.key.localeCompare(right.key)),
      }),
    ),
    handedOvers: await ledger.queues.handedOvers(10),
  };
}
