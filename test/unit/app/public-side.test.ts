/** What a public side keeps of configurations that were replaced, and what it opens once it closes. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test, vi } from "vitest";
import { Backends } from "../../../src/app/backends.ts";
import { PublicSide } from "../../../src/app/public-side.ts";
import { NO_FEE_PAYERS } from "../../../src/payments/sale/offers.ts";
import { LocalPaymentService } from "../../../src/payments/sale/payment-service.ts";
import type { SitesPublisher } from "../../../src/publishing/site-publications.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { paywallStage } from "../payments/sale/paywall-stage.ts";
import { configOf } from "./config-of.ts";

const FILE = `
publicUrl: http://localhost:8402
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
routes: { GET /weather: { price: $0.01, description: Weather } }
`;

const noDocuments: SitesPublisher = () => {
  throw new Error("nobody asks");
};

async function openFront(publish: SitesPublisher): Promise<PublicSide> {
  const { time, ledger, facilitator } = await paywallStage();
  const logger = createLogger({ level: "silent", format: "json" });
  return new PublicSide({
    config: configOf(FILE),
    telemetry: { logger, metrics: new Metrics("test") },
    payments: new LocalPaymentService({ facilitator, redemptions: ledger, logger, time }),
    feePayers: NO_FEE_PAYERS,
    networks: { revision: 0, of: () => "open" },
    pots: ledger.pots,
    publish,
    fronts: 1,
  });
}

test("the documents and routes of the first go, as those of any other, once nobody asks by them", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const gone: WeakRef<object>[] = [];
  const documents = (): SitesPublisher => {
    const publish: SitesPublisher = (...asked) => noDocuments(...asked);
    gone.push(new WeakRef(publish));
    return publish;
  };
  const front = await openFront(documents());
  await front.configure(configOf(FILE), documents());
  await front.configure(configOf(FILE), documents());
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  expect(gone.map((each) => each.deref() === undefined)).toEqual([true, true, false]);
  await front.close(AbortSignal.abort());
});

test("what is being put in force while it closes is closed with it, and nothing is opened after that", async () => {
  const front = await openFront(noDocuments);
  const opening = vi.spyOn(Backends.prototype, "configure");
  const ended: string[] = [];
  const configured = front
    .configure(configOf(FILE), noDocuments)
    .then(() => ended.push("configured"));
  await front.close(AbortSignal.abort()).then(() => ended.push("closed"));
  await configured;
  expect(ended).toEqual(["configured", "closed"]);
  expect(opening).toHaveBeenCalledTimes(1);
  await front.configure(configOf(FILE), noDocuments);
  expect(opening).toHaveBeenCalledTimes(1);
});
