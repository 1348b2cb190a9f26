/** What an agent buys once and uses often: passes and credits, bought and used through `coinslot mcp`, within its budgets. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startAgent, type Agent, type AgentSetup } from "../../support/agents/agent.ts";
import { PURSE, richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import type { FreshAccount } from "../../support/payer.ts";
import { balanceIn } from "../../support/prepaid.ts";

let folder: string;
let storePath: string;
let chain: Chain;
let gateway: RunningGateway;
let states = 0;
/** Told when the backend is asked for what takes long. */
let onSlow = (): void => undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-account-"));
  storePath = join(folder, "ledger.db");
  chain = await startChain();
  const listen = `127.0.0.1:${await freePort()}`;
  gateway = await startGateway({
    chain,
    listen,
    storePath,
    publicUrl: `http://${listen}`,
    more: `
credits: { packs: [$0.10] }
passes:
  three: { price: $0.05, routes: [GET /articles/*], for: 1h, times: 3, description: Three articles }
`,
    routes: `
  GET /articles/*: { price: $0.04, description: An article }
  GET /lookups/:term: { price: $0.02, description: Lookups, credits: true }
`,
    backend: ({ url = "" }, response) => {
      if (url.endsWith("/slow")) return onSlow();
      return void response.end(`goods of ${url}`);
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
  await rm(folder, { recursive: true, force: true });
});

function setup(
  buyer: FreshAccount,
  words: readonly string[],
  more: Partial<AgentSetup> = {},
): AgentSetup {
  states += 1;
  const state = ["--state", join(folder, `purchases-${states}.db`)];
  const seller = ["--seller", new URL(gateway.url).host];
  const env = { COINSLOT_KEY: buyer.privateKey };
  return { words: [...seller, ...state, ...words], env, revision: "2026-07-28", ...more };
}

const charged = async ({ address }: FreshAccount): Promise<bigint> =>
  PURSE - (await chain.balanceOf(address));

const use = (agent: Agent, path: string) =>
  agent.call("buy", { url: `${gateway.url}${path}`, way: "account" });

async function spentBy(agent: Agent): Promise<string> {
  const { facts } = await agent.call("balance");
  return String(Object(facts["today"])["spentOrPromised"]);
}

test("a pass is found in the price, bought, used up, and costs nothing more of the budgets", async () => {
  const buyer = await richBuyer(chain);
  await using agent = await startAgent(setup(buyer, ["--max-day", "$0.09"]));
  const quote = await agent.call("quote", { url: `${gateway.url}/articles/1` });
  const [, way] = Object(quote.facts["ways"]);
  const pass = JSON.stringify(way.told).match(/http[^"]*\/passes\/three/)?.[0];
  expect(way).toMatchObject({ way: "account", how: expect.stringContaining("a pass") });

  expect(await use(agent, "/articles/early")).toMatchObject({
    isError: true,
    facts: { reason: expect.stringContaining("has paid for nothing here") },
  });
  expect(await spentBy(agent)).toBe("$0");

  const bought = await agent.call("buy", { url: pass, method: "POST" });
  expect(bought.facts).toMatchObject({ bought: true, amount: "0.05 USDC ($0.05)" });
  for (const path of ["/articles/1", "/articles/2", "/articles/3"]) {
    expect(await use(agent, path)).toMatchObject({
      answer: `goods of ${path}`,
      facts: { bought: true, heard: "nothing was debited" },
    });
  }
  expect(await spentBy(agent)).toBe("$0.05");
  // It was for three, and a repetition is none.
  expect((await use(agent, "/articles/3")).facts["again"]).toContain("nothing was paid now");
  expect((await use(agent, "/articles/4")).isError).toBe(true);
  expect(await charged(buyer)).toBe(50_000n);
  expect(await spentBy(agent)).toBe("$0.05");
});

test("credits are bought and spent, and count in the budgets like payments", async () => {
  const buyer = await richBuyer(chain);
  await using agent = await startAgent(setup(buyer, ["--max-day", "$0.15"]));
  const quote = await agent.call("quote", { url: `${gateway.url}/lookups/a` });
  const [, way] = Object(quote.facts["ways"]);
  const bought = await agent.call("buy", { url: way.told.buy, method: "POST" });
  expect(bought.facts).toMatchObject({ bought: true, amount: "0.1 USDC ($0.1)" });
  const terms = ["a", "b", "c", "d"];
  const told = await Promise.all(terms.map((term) => use(agent, `/lookups/${term}`)));
  const served = told.filter(({ isError }) => !isError);
  expect(served).toHaveLength(2);
  expect(served[0]?.facts).toMatchObject({
    heard: "debited 0.02 USDC",
    amount: "0.02 USDC ($0.02) at most, of an account",
  });
  expect(told.find(({ isError }) => isError)?.facts["reason"]).toContain(
    "$0.02 more would be over the budget of a day, $0.15: $0.14 of it are spent or promised",
  );
  expect(await spentBy(agent)).toBe("$0.14");
  const paid = await agent.call("buy", { url: `${gateway.url}/lookups/paid` });
  expect(paid.facts["reason"]).toContain("over the budget of a day");
  await expect.poll(() => balanceIn(storePath, buyer.address)).toBe(60_000n);
  expect(await charged(buyer)).toBe(100_000n);
});

test("credits are asked of a person above the sum, as much as a payment is", async () => {
  const buyer = await richBuyer(chain);
  const questions: string[] = [];
  const person = (question: string): boolean => {
    questions.push(question);
    return !question.includes("/lookups/no");
  };
  const words = ["--confirm-above", "$0.01"];
  await using agent = await startAgent(setup(buyer, words, { person }));
  await agent.call("buy", { url: `${gateway.url}/.x402/credits`, method: "POST" });
  const refused = await use(agent, "/lookups/no");
  expect(refused.facts["reason"]).toBe("the person who was asked did not agree");
  expect((await use(agent, "/lookups/yes")).facts).toMatchObject({ heard: "debited 0.02 USDC" });
  const { host } = new URL(gateway.url);
  expect(questions.at(-1)).toBe(
    `Use up to 0.02 USDC ($0.02) of what the account has at ${host} for GET ${gateway.url}/lookups/yes?`,
  );
  expect(questions).toHaveLength(3);
  await using mute = await startAgent(setup(buyer, words));
  const unasked = await use(mute, "/lookups/mute");
  expect(unasked.facts["reason"]).toContain("this client cannot ask");
  await expect.poll(() => balanceIn(storePath, buyer.address)).toBe(80_000n);
});

test("what an account may have paid when everything ended counts, and is not asked for again by itself", async () => {
  const buyer = await richBuyer(chain);
  const common = setup(buyer, ["--max-day", "$0.13"]);
  await using first = await startAgent(common);
  await first.call("buy", { url: `${gateway.url}/.x402/credits`, method: "POST" });
  const asked = Promise.withResolvers<void>();
  onSlow = asked.resolve;
  const lost = use(first, "/lookups/slow").then(
    () => "answered",
    () => "lost",
  );
  await asked.promise;
  process.kill(first.pid, "SIGKILL");
  expect(await lost).toBe("lost");

  await using second = await startAgent(common);
  expect(await spentBy(second)).toBe("$0.12");
  const again = await use(second, "/lookups/slow");
  expect(again).toMatchObject({
    isError: true,
    facts: { advice: expect.stringContaining("another occasion asks anew") },
  });
  expect((await use(second, "/lookups/next")).facts["reason"]).toContain(
    "over the budget of a day",
  );
});
