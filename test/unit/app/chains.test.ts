import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { createMechanisms, createObservers } from "../../../src/app/chains.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { exampleRequest } from "../payments/settlement/example-request.ts";
import {
  NETWORK,
  PAYEE,
  solanaPayment,
  solanaRequirements,
} from "../payments/sale/solana-payment.ts";
import { configOf, SOLANA_ADDRESS as FEE_PAYER } from "./config-of.ts";

const EVM_PAYEE = exampleRequest.paymentRequirements.payTo;
const at = {
  telemetry: {
    logger: createLogger({ level: "silent", format: "json" }),
    metrics: new Metrics("test"),
  },
  time: systemTime,
};

/** A facilitator for others on both kinds of networks; opens no connection. */
async function mechanismsFor(allow: string) {
  const config = configOf(`
facilitator:
  listen: 127.0.0.1:4021
  embedded:
    ${allow}
    networks:
      base-sepolia: { rpc: ["http://127.0.0.1:1"], signers: [env:EVM_KEY] }
      solana-devnet: { rpc: ["http://127.0.0.1:2"], signers: [env:SOLANA_KEY] }
`);
  const mechanisms = await createMechanisms(config, at);
  onTestFinished(async () => void (await Promise.all(mechanisms.map((each) => each.close()))));
  return mechanisms;
}

const solanaRequest = {
  paymentPayload: solanaPayment({ feePayer: FEE_PAYER }),
  paymentRequirements: solanaRequirements({
    asset: networkOf(NETWORK).asset.address,
    extra: { feePayer: FEE_PAYER },
  }),
};

/** Whether each of them serves a payment to the payee of its example. */
async function payable(allow: string): Promise<readonly boolean[]> {
  const [evm, solana] = await mechanismsFor(allow);
  const checked = [evm?.check(exampleRequest, 0), solana?.check(solanaRequest, 0)];
  return checked.map((each) => each?.ok === true);
}

describe("what is settled here", () => {
  test("is settled with the accounts that are configured", async () => {
    const [evm, solana] = await mechanismsFor("");
    expect([evm?.network, solana?.network]).toEqual(["base-sepolia", NETWORK]);
    expect(solana?.accounts).toEqual([FEE_PAYER]);
    expect(solana?.kind.extra).toEqual({ feePayer: FEE_PAYER });
  });

  test("goes to anybody where nobody is named", async () => {
    expect(await payable("")).toEqual([true, true]);
  });

  test.each([
    ["both", `[ "${EVM_PAYEE}", ${PAYEE} ]`, [true, true]],
    ["an EVM address", `[ "${EVM_PAYEE}" ]`, [true, false]],
    ["a Solana address", `[ ${PAYEE} ]`, [false, true]],
  ])("goes to nobody on networks of which no payee is named: %s", async (_, payTo, expected) => {
    expect(await payable(`allow: { payTo: ${payTo} }`)).toEqual(expected);
  });
});

test("chains that others settle on are looked at, of both kinds", async () => {
  const config = configOf(`
facilitator:
  listen: 127.0.0.1:4021
  remote: [https://facilitator.example]
  rpc: { base: ["http://127.0.0.1:1"], solana: ["http://127.0.0.1:2"] }
`);
  const observers = await createObservers(config.facilitator.observed, at);
  expect(observers.map(({ network }) => network)).toEqual(["base", "solana"]);
  await Promise.all(observers.map((each) => each.close()));
});

test("a process that has nothing to do with Solana does not load what only Solana needs", async () => {
  const root = new URL("../../../", import.meta.url);
  const program = `
    import { registerHooks } from "node:module";
    const loaded = [];
    registerHooks({ resolve(name, context, next) {
      const found = next(name, context);
      loaded.push(found.url);
      return found;
    } });
    await import("./src/app.ts");
    await import("./src/cli/serve.ts");
    const ofEvm = loaded.filter((url) => url.includes("/mechanism/evm/")).length;
    const ofSolana = loaded.filter((url) => /mechanism.solana|@solana/.test(url));
    console.log(JSON.stringify({ hasEvm: ofEvm > 0, ofSolana }));
  `;
  const run = promisify(execFile);
  const words = ["--input-type=module", "--eval", program];
  const { stdout } = await run(process.execPath, words, { cwd: root });
  expect(JSON.parse(stdout)).toEqual({ hasEvm: true, ofSolana: [] });
});
