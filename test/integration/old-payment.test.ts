/**
 * What the chain shows from before: anybody can read a payment there and present it again, to any gateway of the
 * same seller, or to one that has lost its ledger. Facilitators elsewhere, of the npm package `x402` as it is.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { present, richBuyer, sign } from "../support/buyer.ts";
import { STRANGER, startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { startNpmFacilitator, type NpmFacilitator } from "../support/npm-facilitator.ts";
import { freshAccount } from "../support/payer.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { startScriptedFacilitator } from "../support/scripted-facilitator.ts";
import { submitAsStranger } from "../support/stranger.ts";

const USED = "invalid_transaction_state";
const USED_DETAIL = "the authorization's nonce is used or cancelled";

let chain: Chain;
let facilitator: NpmFacilitator;

beforeAll(async () => {
  // The package looks for its transaction once in each block, and misses it for good where no more come.
  chain = await startChain({ blockTime: 1 });
  facilitator = await startNpmFacilitator(chain);
});

afterAll(async () => {
  await facilitator[Symbol.asyncDispose]();
  await chain.stop();
});

interface Setup {
  readonly confirm: string;
  readonly payee: `0x${string}`;
  readonly facilitatorUrl?: string;
  readonly rpcUrl?: string;
}

/** With a ledger of its own. */
async function openGateway(setup: Setup): Promise<RunningGateway> {
  const { confirm, payee, facilitatorUrl = facilitator.url, rpcUrl = chain.rpcUrl } = setup;
  const gateway = await startGateway({
    chain,
    payee,
    facilitator: `
  remote: [{ url: "${facilitatorUrl}", confirm: ${confirm} }]
  rpc: { ${chain.network.name}: ["${rpcUrl}"] }
`,
  });
  onTestFinished(() => gateway[Symbol.asyncDispose]());
  return gateway;
}

const seller = (): `0x${string}` => freshAccount().address;

describe.each(["receipt", "facilitator"])("where %s confirms", (confirm) => {
  test("an old transfer buys at no gateway of the seller", { timeout: 30_000 }, async () => {
    const payee = seller();
    const honest = await openGateway({ confirm, payee });
    const url = `${honest.url}/weather`;
    const header = await sign(await richBuyer(chain), url);
    expect(await present(url, header)).toMatchObject({ status: 200 });
    const paid = await chain.balanceOf(payee);
    for (let count = 0; count < 3; count += 1) {
      const other = await openGateway({ confirm, payee });
      const answer = await present(`${other.url}/weather`, header);
      expect(answer).toMatchObject({ status: 402, error: expect.stringContaining(USED) });
      expect(answer.text).toContain(USED_DETAIL);
      expect(other.upstream).toEqual([]);
    }
    expect(await chain.balanceOf(payee)).toBe(paid);
  });

  test("nor at one whose ledger was lost", { timeout: 30_000 }, async () => {
    const payee = seller();
    const before = await openGateway({ confirm, payee });
    const header = await sign(await richBuyer(chain), `${before.url}/weather`);
    expect(await present(`${before.url}/weather`, header)).toMatchObject({ status: 200 });
    await before.running.close();
    const after = await openGateway({ confirm, payee });
    const answer = await present(`${after.url}/weather`, header);
    expect(answer).toMatchObject({ status: 402, error: expect.stringContaining(USED) });
    expect(answer.text).toContain(USED_DETAIL);
    expect(after.upstream).toEqual([]);
  });
});

describe("a payment that its facilitator refuses", () => {
  const confirm = "receipt";

  test(
    "is sold where it was settled by a request that was sent twice",
    { timeout: 30_000 },
    async () => {
      const payee = seller();
      const gateway = await openGateway({ confirm, payee });
      const url = `${gateway.url}/weather`;
      const buyer = freshAccount();
      await chain.fund(buyer.address, 10_000n);
      const header = await sign(buyer, url);
      // Its account is known from an earlier settlement.
      expect(await present(url, await sign(await richBuyer(chain), url))).toMatchObject({
        status: 200,
      });
      facilitator.isRepeated = true;
      onTestFinished(() => void (facilitator.isRepeated = false));
      expect(await present(url, header)).toMatchObject({ status: 200 });
      expect(await chain.balanceOf(payee)).toBe(20_000n);
      expect(gateway.upstream.length).toBe(2);
    },
  );

  /** Says that payments are good, and settles none; those accounts are its own. */
  async function refused(signers: readonly string[]) {
    const kinds = [{ x402Version: 1, scheme: "exact", network: chain.network.name }];
    const bodies: Readonly<Record<string, object>> = {
      "/supported": { kinds, signers: { "eip155:*": signers } },
      "/verify": { isValid: true },
      "/settle": { success: false, errorReason: "invalid_scheme" },
    };
    const refusing = await startScriptedFacilitator(({ url }) => {
      return { status: 200, body: bodies[url] ?? {} };
    });
    onTestFinished(() => refusing.close());
    const gateway = await openGateway({ confirm, payee: seller(), facilitatorUrl: refusing.url });
    const url = `${gateway.url}/weather`;
    const header = await sign(await richBuyer(chain), url);
    expect(await present(url, header)).toMatchObject({
      status: 402,
      error: expect.stringContaining("invalid_scheme"),
    });
    return { refusing, gateway, url, header };
  }

  test(
    "is sold when it is presented again after the chain has it",
    { timeout: 30_000 },
    async () => {
      const { refusing, gateway, url, header } = await refused([STRANGER]);
      await submitAsStranger(chain, header);
      expect(await present(url, header)).toMatchObject({ status: 200 });
      expect([refusing.count("/settle"), gateway.upstream.length]).toEqual([1, 1]);
    },
  );

  test("is held where somebody else has put it on the chain", { timeout: 30_000 }, async () => {
    const { gateway, url, header } = await refused([]);
    const transaction = await submitAsStranger(chain, header);
    for (let round = 0; round < 2; round += 1) {
      const error = expect.stringContaining(transaction);
      expect(await present(url, header)).toMatchObject({ status: 500, error });
    }
    expect(gateway.upstream).toEqual([]);
  });

  test("is not handed over while the chain cannot be asked", { timeout: 30_000 }, async () => {
    const payee = seller();
    await using proxy = await startRpcProxy(chain.rpcUrl);
    const gateway = await openGateway({ confirm, payee, rpcUrl: proxy.url });
    const url = `${gateway.url}/weather`;
    const header = await sign(await richBuyer(chain), url);
    const before = facilitator.calls.filter((path) => path === "/settle").length;
    const outage = proxy.inject({ status: 503 });
    expect(await present(url, header)).toMatchObject({ status: 500 });
    expect(facilitator.calls.filter((path) => path === "/settle").length).toBe(before);
    expect(await chain.balanceOf(payee)).toBe(0n);
    outage.lift();
    expect(await present(url, header)).toMatchObject({ status: 200 });
  });
});
