/** Several `coinslot mcp` on one file of purchases: one of them buys, and the next finds all that a killed one has promised. */
import { link, mkdtemp, rename, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { startAgent, type Agent } from "../../support/agents/agent.ts";
import { richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import type { FreshAccount } from "../../support/payer.ts";

let folder: string;
let chain: Chain;
let gateway: RunningGateway;
let buyer: FreshAccount;

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({ chain });
  buyer = await richBuyer(chain);
});

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-book-"));
  return () => rm(folder, { recursive: true, force: true });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

/** An agent that may spend three cents a day. */
function agentOf(name: string): Promise<Agent> {
  const { host } = new URL(gateway.url);
  const words = ["--seller", host, "--max-day", "$0.03", "--state", join(folder, name)];
  return startAgent({ words, env: { COINSLOT_KEY: buyer.privateKey }, revision: "2026-07-28" });
}

async function buysOf(agent: Agent, names: readonly string[]): Promise<readonly string[]> {
  const calls = names.map((name) =>
    agent.call("buy", { url: `${gateway.url}/weather?${folder}${name}` }),
  );
  const told = await Promise.all(calls);
  return told.map(({ isError, facts }) => (isError ? String(facts["reason"]) : "bought"));
}

const taken = expect.stringMatching(/^another process has the purchases of .* its own --state/);
const overDay = expect.stringContaining("over the budget of a day");

test.each([
  { by: "the same name", make: async () => "book.db" },
  {
    by: "a symbolic link",
    make: async () => {
      await symlink("book.db", join(folder, "soft.db"));
      return "soft.db";
    },
  },
  {
    by: "a hard link",
    make: async () => {
      await link(join(folder, "book.db"), join(folder, "hard.db"));
      return "hard.db";
    },
  },
  {
    by: "another name, to which it was moved",
    make: async () => {
      await rename(join(folder, "book.db"), join(folder, "moved.db"));
      return "moved.db";
    },
  },
])("a second process by $by is refused, and counts all when the first was killed", async (how) => {
  const before = await chain.balanceOf(buyer.address);
  await using first = await agentOf("book.db");
  expect(await buysOf(first, ["a", "b"])).toEqual(["bought", "bought"]);
  const name = await how.make();
  await using second = await agentOf(name);
  expect(await buysOf(second, ["c"])).toEqual([taken]);
  process.kill(first.pid, "SIGKILL");
  // A name beside the first one's is taken away: the file may have only one.
  if (name === "hard.db") await rm(join(folder, "book.db"));
  // The one that was refused has the book from now on.
  expect((await buysOf(second, ["d", "e"])).toSorted()).toEqual([overDay, "bought"].toSorted());
  expect(await buysOf(second, ["a"])).toEqual(["bought"]);
  expect(await chain.balanceOf(buyer.address)).toBe(before - 30_000n);
});

test("a file of two names is refused with what to do, and one that is gone is not bought from", async () => {
  const before = await chain.balanceOf(buyer.address);
  await using first = await agentOf("book.db");
  expect(await buysOf(first, ["a"])).toEqual(["bought"]);
  await link(join(folder, "book.db"), join(folder, "other.db"));
  expect(await buysOf(first, ["b"])).toEqual([expect.stringContaining("while it was open")]);
  process.kill(first.pid, "SIGKILL");
  await using second = await agentOf("other.db");
  expect(await buysOf(second, ["b"])).toEqual([
    expect.stringContaining("has 2 names (hard links), and what a process"),
  ]);
  await rm(join(folder, "book.db"));
  expect(await buysOf(second, ["b"])).toEqual(["bought"]);
  await rm(join(folder, "other.db"));
  await using third = await agentOf("other.db");
  expect(await buysOf(second, ["c"])).toEqual([expect.stringContaining("while it was open")]);
  expect(await buysOf(third, ["c"])).toEqual(["bought"]);
  expect(await chain.balanceOf(buyer.address)).toBe(before - 30_000n);
});

test("of many that are started at once one buys, and its budget is the only one", async () => {
  const before = await chain.balanceOf(buyer.address);
  const agents = await Promise.all(Array.from({ length: 4 }, () => agentOf("book.db")));
  const told = await Promise.all(agents.map((agent, n) => buysOf(agent, [`${n}a`, `${n}b`])));
  expect(told.flat().filter((each) => each === "bought")).toHaveLength(2);
  expect(told.filter((each) => each[0] === "bought")).toEqual([["bought", "bought"]]);
  expect(await chain.balanceOf(buyer.address)).toBe(before - 20_000n);
  await Promise.all(agents.map((agent) => agent[Symbol.asyncDispose]()));
});
