/** `coinslot pay --credits`: a request that is paid from what a key has prepaid, at a gateway. */
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startChain, type Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { freshAccount } from "../../support/payer.ts";
import { balanceIn, prepay } from "../../support/prepaid.ts";
import { runHere } from "./run-here.ts";

const buyer = freshAccount();
const env = { COINSLOT_KEY: buyer.privateKey };

describe("--credits, at a gateway,", () => {
  const storePath = join(tmpdir(), `coinslot-pay-credits-${randomUUID()}`, "ledger.db");
  let chain: Chain;
  let gateway: RunningGateway;
  let url: string;

  beforeAll(async () => {
    chain = await startChain();
    await prepay(storePath, { [buyer.address]: 2_500n });
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    gateway = await startGateway({
      chain,
      storePath,
      publicUrl: url,
      more: "credits: { packs: [$1] }",
      routes: `
  GET /weather: { price: $0.001, description: Weather, credits: true }
  GET /broken: { price: $0.001, description: Broken, credits: true }
  GET /plain: { price: $0.001, description: By payments alone }
  GET /dear: { price: $0.2, description: Dear, credits: true }
`,
      backend: ({ url: path }, response) =>
        void response.writeHead(path === "/broken" ? 503 : 200).end("goods"),
      listen: `127.0.0.1:${port}`,
    });
  });
  afterAll(async () => {
    await gateway[Symbol.asyncDispose]();
    await chain.stop();
  });

  const pay = (path: string, ...words: readonly string[]) =>
    runHere(["pay", "--credits", `${url}${path}`, ...words], env);

  test("pays from the balance, once, what was agreed to", async () => {
    const balance = async () => (await runHere(["pay", "--balance", url], env)).stdout;
    expect(await balance()).toBe("$0.0025  USDC on evm-testnet\n");
    const { code, stdout, stderr } = await pay("/weather", "--yes");
    expect({ code, stdout }).toEqual({ code: 0, stdout: "goods" });
    expect(stderr).toContain(`pay 0.001 USDC ($0.001) from what ${buyer.address} has prepaid\n`);
    expect(stderr).toMatch(/^paid 0\.001 USDC from the balance$/m);
    await expect.poll(() => balanceIn(storePath, buyer.address)).toBe(1_500n);
    expect(await pay("/weather")).toMatchObject({ code: 3 });
    expect(await pay("/dear", "--yes")).toMatchObject({ code: 3 });
    expect(await pay("/broken", "--yes")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^nothing was paid: /m),
    });
    const plain = await pay("/plain", "--yes");
    expect(plain).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(
        /not paid from a balance: .*without --credits it is paid on chain/,
      ),
    });
    const json = await pay("/weather", "--yes", "--json", "--output", join(tmpdir(), randomUUID()));
    expect(JSON.parse(json.stdout)).toMatchObject({
      status: 200,
      paid: true,
      charged: "0.001 USDC",
    });
    await expect.poll(() => balanceIn(storePath, buyer.address)).toBe(500n);
    const short = await pay("/weather", "--yes");
    expect(short).toMatchObject({ code: 3, stdout: "" });
    expect(balanceIn(storePath, buyer.address)).toBe(500n);
    expect(await balance()).toBe("$0.0005  USDC on evm-testnet\n");
    expect(await chain.balanceOf(gateway.payee)).toBe(0n);
  });

  test("is for whoever has prepaid: a stranger is told so, and asked for no payment", async () => {
    const stranger = freshAccount();
    const key = { COINSLOT_KEY: stranger.privateKey };
    const { code, stderr } = await runHere(["pay", "--credits", "-y", `${url}/weather`], key);
    expect(code).toBe(3);
    expect(stderr).toMatch(/not paid: .*has prepaid nothing/);
    expect(await runHere(["pay", "--balance", url], key)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/has prepaid nothing/),
    });
  });
});
