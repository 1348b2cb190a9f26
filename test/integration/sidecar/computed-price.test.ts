/** A check has a head alone: a price that is computed from that is the same beside a proxy as before its own clients. */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { start, type Running } from "../../../src/app.ts";
import { formatProblems, parseConfig } from "../../../src/config/config.ts";
import { inHeader, PURSE, richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, signPayment } from "../../support/payer.ts";
import { X402_VERSION } from "../../../src/x402/x402.ts";
import { shopYaml } from "./stage.ts";

const folder = join(tmpdir(), `coinslot-sidecar-${randomUUID()}`);
let chain: Chain;
let running: Running;

beforeAll(async () => {
  chain = await startChain();
  const signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  const head = `
sidecar: { listen: 127.0.0.1:0, proxy: envoy }
publicUrl: https://shop.example
store: sqlite:${folder}/ledger.db
`;
  const yaml = shopYaml(chain, freshAccount().address).replace("debug", "silent");
  const env = { SIGNER: signer.privateKey };
  const parsed = parseConfig(head + yaml, { file: "test.yaml", env, readFile: () => "" });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  running = await start(parsed.config, "test");
});

afterAll(async () => {
  await running.close({ atOnce: true });
  await chain.stop();
  await rm(folder, { recursive: true, force: true });
});

it("is what the query says, and no other request passes for it", async () => {
  const { port = 0 } = running.addresses.gateway[0] ?? {};
  const check = (query: string, payment?: string) =>
    fetch(`http://127.0.0.1:${port}/check/by-query?${query}`, {
      headers: {
        "X-Forwarded-For": "192.0.2.9",
        ...(payment !== undefined && { "X-PAYMENT": payment }),
      },
    });
  const { accepts } = Object(await (await check("n=3")).json());
  expect(accepts[0].maxAmountRequired).toBe("3000");
  const buyer = await richBuyer(chain);
  const paymentPayload = await signPayment({ account: buyer.account, requirements: accepts[0] });
  const header = inHeader({ paymentPayload, paymentRequirements: accepts[0] }, X402_VERSION);
  expect((await check("n=30", header)).status).toBe(402);
  expect((await check("n=3&n=30", header)).status).toBe(400);
  expect((await check("n=3", header)).headers.get("x-402-pass")).toBe("paid");
  expect((await check("n=30", header)).status).toBe(409);
  expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 3_000n);
});
