/** Random sequences of operations and restarts, on the real ledger and on the model of its rules. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { examplePayment } from "./example-payment.ts";
import {
  BINDING,
  CALLER,
  FAILURE,
  forged,
  NETWORK,
  OTHER_BINDING,
  OTHER_TARGET,
  repriced,
  SETTLEMENT,
  TARGET,
  termsOf,
  word,
  type LedgerStore,
} from "./ledger-driver.ts";
import { LedgerModel, PLAIN_OPERATIONS, PRICE, type Operation } from "./ledger-model.ts";

const payment = fc.integer({ min: 0, max: 2 });
const plain = fc.record({ name: fc.constantFrom(...PLAIN_OPERATIONS), payment });
const mostly = fc.constantFrom(true, true, true, false);
const operations: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 8, arbitrary: plain },
  {
    weight: 2,
    arbitrary: fc.record({
      name: fc.constant("undelivered"),
      payment,
      sent: fc.boolean(),
      served: fc.constantFrom(null, TARGET, OTHER_TARGET),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      name: fc.constant("claim"),
      payment,
      genuine: mostly,
      binding: fc.constantFrom(BINDING, OTHER_BINDING),
      target: fc.constantFrom(TARGET, OTHER_TARGET),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      name: fc.constant("begin"),
      payment,
      genuine: mostly,
      price: fc.constantFrom(PRICE, PRICE, "9"),
      caller: fc.constantFrom(undefined, CALLER, "a stranger's key"),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      name: fc.constant("settled"),
      payment,
      transaction: fc.constantFrom("0xaa", "0xbb"),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ name: "restart" } as const) },
);

export function describeSequences(name: string, createStore: () => Promise<LedgerStore>): void {
  describe(`the ${name} ledger`, () => {
    it("does what a model of its rules does, for any sequence of operations", async () => {
      const store = await createStore();
      let lives = 0;
      const restart = (): Promise<Ledger> => {
        lives += 1;
        return store.open({ bootId: `life ${lives}`, clock: () => 1_700_000_000_000 });
      };
      let ledger = await restart();
      let runs = 0;
      const property = fc.asyncProperty(fc.array(operations, { maxLength: 40 }), async (run) => {
        const model = new LedgerModel();
        runs += 1;
        const place = { offset: runs * 10, address: `account ${runs}` };
        for (const operation of run) {
          const expected = `${operation.name}: ${model.apply(operation)}`;
          if (operation.name === "restart") {
            await ledger.close();
            ledger = await restart();
          } else {
            const met = await operate(ledger, operation, place);
            expect(`${operation.name}: ${met}`).toBe(expected);
          }
        }
        expect(await ledger.nextAccountNonce(NETWORK, place.address)).toBe(model.nextNonce);
        const signed = await ledger.unfinished();
        const keys = signed
          .filter((each) => each.signed.raw === place.address)
          .map(({ key }) => key);
        const expected = model.unfinished.map(
          (number) => examplePayment(place.offset + number).key,
        );
        expect(keys.sort()).toEqual(expected.sort());
      });
      await fc.assert(property, { numRuns: 150 });
      await ledger.close();
      await store.remove();
    });
  });
}

/** One operation of the model on the real ledger, on payments and an account of this run only. */
function operate(
  ledger: Ledger,
  operation: Exclude<Operation, { name: "restart" }>,
  { offset, address }: { readonly offset: number; readonly address: string },
): Promise<string> {
  const chosen = examplePayment(offset + operation.payment);
  const { key } = chosen;
  switch (operation.name) {
    case "claim": {
      const { genuine, binding, target } = operation;
      const request = genuine ? chosen.request : forged(chosen.request);
      return word(ledger.claim(key, termsOf({ request }, { binding, target })));
    }
    case "begin": {
      const request = operation.genuine ? chosen.request : forged(chosen.request);
      const priced = repriced(request, { maxAmountRequired: operation.price });
      return word(ledger.begin(key, priced, operation.caller));
    }
    case "undelivered":
      return word(ledger.undelivered(key, operation));
    case "settled":
      return word(ledger.settled(key, { ...SETTLEMENT, transaction: operation.transaction }));
    case "signed":
      return word(
        ledger.signed(key, { network: NETWORK, address, seed: 0 }, (accountNonce) => ({
          transaction: `${address} ${accountNonce}`,
          raw: address,
          account: address,
          accountNonce,
        })),
      );
    case "failed":
      return word(ledger.failed(key, FAILURE));
    default:
      return word(ledger[operation.name](key));
  }
}
