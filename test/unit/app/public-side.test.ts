/** What a public side keeps of configurations that were replaced. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
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

test("the documents and routes of the first go, as those of any other, once nobody asks by them", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const { time, ledger, facilitator } = await paywallStage();
  const logger = createLogger({ level: "silent", format: "json" });
  const metrics = new Metrics("test");
  const gone: WeakRef<object>[] = [];
  const documents = (): SitesPublisher => {
    const publish: SitesPublisher = () => {
      throw new Error("nobody asks");
    };
    gone.push(new WeakRef(publish));
    return publish;
  };
  const payments = new LocalPaymentService({ facilitator, redemptions: ledger, logger, time });
  const front = new PublicSide({
    config: configOf(FILE),
    telemetry: { logger, metrics },
    payments,
    feePayers: NO_FEE_PAYERS,
    networks: { revision: 0, of: () => "open" },
    publish: documents(),
    fronts: 1,
  });
  await front.configure(configOf(FILE), documents());
  await front.configure(configOf(FILE), documents());
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  expect(gone.map((each) => each.deref() === undefined)).toEqual([true, true, false]);
  await front.close(AbortSignal.abort());
});
