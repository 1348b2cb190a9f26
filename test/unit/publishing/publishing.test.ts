import { expect, test } from "vitest";
import { Publications } from "../../../src/publishing/publishing.ts";
import { KeptBytes } from "../../../src/publishing/encoded.ts";
import { FeePayerNews, StopNews } from "../../../src/app/start-order.ts";
import { entryName } from "../../../src/discovery/discovery.ts";
import { SharedEntries } from "../../../src/discovery/shared-entries.ts";
import { examplePayment } from "../ledger/example-payment.ts";
import { configOf } from "../app/config-of.ts";

const config = configOf(
  `
publicUrl: http://localhost:8402
payTo: 2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4
accept: [solana-devnet]
facilitator: https://facilitator.example.com
upstream: http://localhost:3000
unmatched: deny
routes:
  GET /own: $0.01
`,
  {},
);

test("another fee payer is in the listing at once, beside what others sell", () => {
  const feePayers = new FeePayerNews([["solana-devnet", "first"]]);
  const others = new SharedEntries();
  const { paymentRequirements } = examplePayment(1).request;
  const resource = "https://weather.example.com/today";
  const terms = { resource, methods: ["GET"], metadata: {}, isTemplate: false };
  others.put({ ...terms, accepts: [paymentRequirements], lastUpdated: 1 });
  const { list } = new Publications(config, { changes: new Map(), feePayers, others });
  const listed = (): unknown =>
    JSON.parse(list("").body).items.map(({ accepts }: Listed) => accepts[0].extra?.["feePayer"]);
  expect(listed()).toEqual(["first", undefined]);
  feePayers.tell([["solana-devnet", "second"]]);
  expect(listed()).toEqual(["second", undefined]);
  feePayers.tell([]);
  expect(listed()).toEqual([undefined]);
});

test("whatever comes and goes, in whatever numbers, the listing is that of what there is", () => {
  const feePayers = new FeePayerNews([["solana-devnet", "first"]]);
  const others = new SharedEntries();
  const { paymentRequirements } = examplePayment(1).request;
  const ground = { changes: new Map<string, number>(), feePayers, others };
  const { list } = new Publications(config, ground);
  const entry = (number: number, lastUpdated: number) => {
    const resource = `https://weather.example.com/${number}`;
    const terms = { resource, methods: ["GET"], metadata: {}, isTemplate: false };
    return { ...terms, accepts: [paymentRequirements], lastUpdated };
  };
  for (const [count, goes] of [
    [100, 0],
    [1, 0],
    [60, 7],
    [3, 1],
    [0, 90],
    [5, 0],
  ] as const) {
    for (let number = 0; number < count; number += 1) others.put(entry(number, count));
    for (let number = 0; number < goes; number += 1) others.drop(entryName(entry(number, 0)));
    const fresh = new Publications(config, ground);
    for (const query of ["limit=100", "q=5", "limit=3&offset=2"]) {
      expect(list(query)).toEqual(fresh.list(query));
    }
  }
});

interface Listed {
  readonly accepts: readonly [{ readonly extra?: Readonly<Record<string, unknown>> }];
}

test("what is compressed is kept, and not more than there is room for", () => {
  const kept = new KeptBytes();
  let made = 0;
  const take = (tag: string, bytes: number): number => {
    made = 0;
    const taken = kept.take(tag, () => {
      made += 1;
      return new Uint8Array(bytes);
    });
    return taken.length === bytes ? made : -1;
  };
  expect([take("a", 3_000_000), take("a", 3_000_000), take("b", 4_000_000)]).toEqual([1, 0, 1]);
  // The one that was asked for last stays.
  expect([take("a", 3_000_000), take("c", 3_000_000), take("a", 3_000_000)]).toEqual([0, 1, 0]);
  expect(take("b", 4_000_000)).toBe(1);
  // Larger than all the room: given all the same, and alone.
  expect([take("d", 9_000_000), take("d", 9_000_000), take("a", 1)]).toEqual([1, 0, 1]);
});

test("a route that is paused is not listed, and is again when it is sold again", () => {
  const feePayers = new FeePayerNews([["solana-devnet", "first"]]);
  const stopped = new StopNews([]);
  const { list } = new Publications(config, { changes: new Map(), feePayers, stopped });
  const count = (): number => JSON.parse(list("").body).items.length;
  expect(count()).toBe(1);
  for (const [scope, listed] of [
    ["route GET /own", 0],
    ["all", 0],
    ["sales", 0],
    ["route GET /other", 1],
    ["network solana-devnet", 1],
  ] as const) {
    stopped.tell([[scope, { why: "paused", untilMs: null }]]);
    expect([scope, count()]).toEqual([scope, listed]);
  }
  stopped.tell([]);
  expect(count()).toBe(1);
});
