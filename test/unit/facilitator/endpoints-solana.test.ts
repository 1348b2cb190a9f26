import { expect, onTestFinished, test } from "vitest";
import { EmbeddedFacilitator } from "../../../src/payments/settlement/embedded.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import { caip2Of } from "../../../src/x402/version-2.ts";
import { FEE_PAYER, kindOf, OTHER_FEE_PAYER } from "../payments/sale/solana-payment.ts";
import { ask, stage } from "./endpoints-stage.ts";
import { meshOver, scripted } from "./mesh-stage.ts";
import { ScriptedChain } from "../payments/settlement/scripted-mechanism.ts";

async function embeddedWith(feePayer: () => string): Promise<EmbeddedFacilitator> {
  const mechanisms = (["solana", "solana-devnet", "base"] as const).map((network) => {
    const mechanism = new ScriptedChain().mechanism({ members: { network } });
    const evm = { x402Version: 1, scheme: "exact", network };
    const get = () => (network === "base" ? evm : kindOf(feePayer(), network));
    return Object.defineProperty(mechanism, "kind", { get });
  });
  const time = systemTime;
  const ledger = await openSqliteLedger({ path: ":memory:", time, life: "life" });
  const facilitator = new EmbeddedFacilitator({
    mechanisms,
    ledger,
    gate: { isOpen: () => true, isTrusted: () => true },
    telemetry: {
      logger: createLogger({ level: "silent", format: "json" }),
      metrics: new Metrics("test"),
    },
    time,
    describeAsset: () => ({ symbol: "USDC", decimals: 6 }),
  });
  onTestFinished(async () => {
    await facilitator.close();
    await ledger.close();
  });
  return facilitator;
}

const kindsWith = (feePayer: string) => [
  { x402Version: 1, scheme: "exact", network: "base" },
  kindOf(feePayer, "solana-devnet"),
  kindOf(feePayer, "solana"),
];

/** The same of version 2 after them. */
const allWith = (feePayer: string) => [
  ...kindsWith(feePayer),
  ...kindsWith(feePayer).map((kind) => ({
    ...kind,
    x402Version: 2,
    network: caip2Of(kind.network),
  })),
];

test("GET /supported tells who pays the network fee on both Solana networks now", async () => {
  let feePayer = FEE_PAYER;
  const facilitator = await embeddedWith(() => feePayer);
  const at = await stage({ facilitator: { supported: () => facilitator.supported() } });
  expect((await ask(at, "/supported")).body).toMatchObject({ kinds: allWith(FEE_PAYER) });
  feePayer = OTHER_FEE_PAYER;
  expect((await ask(at, "/supported")).body).toMatchObject({ kinds: allWith(OTHER_FEE_PAYER) });
});

test("GET /supported passes on who pays it at facilitators elsewhere", async () => {
  const remote = await scripted({ status: 200, body: { kinds: kindsWith(FEE_PAYER) } });
  const { router } = meshOver([remote]);
  const at = await stage({ facilitator: { supported: (signal) => router.supported(signal) } });
  expect((await ask(at, "/supported")).body).toMatchObject({ kinds: allWith(FEE_PAYER) });
});
