import { expect, test } from "vitest";
import { Publications } from "../../../src/app/publishing.ts";
import { ToldFeePayers } from "../../../src/app/start-order.ts";
import { SharedEntries } from "../../../src/discovery/shared-entries.ts";
import { examplePayment } from "../ledger/example-payment.ts";
import { configOf } from "./config-of.ts";

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
  const feePayers = new ToldFeePayers([["solana-devnet", "first"]]);
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

interface Listed {
  readonly accepts: readonly [{ readonly extra?: Readonly<Record<string, unknown>> }];
}
