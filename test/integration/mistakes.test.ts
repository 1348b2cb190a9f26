/** The mistakes of `deploy/BUYERS.md`, each made here: the terminal says what stands there, and no more is charged. */
import { readFileSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { inBoth, present, quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { ROOT } from "../support/paper-commands.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import { runHere } from "./cli/run-here.ts";

// `coinslot pay` waits between its attempts.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const BIG = Buffer.alloc(1_000_000, "x");
const CHARGED: Readonly<Record<string, bigint>> = { nothing: 0n, once: 10_000n };

/** Of `support: help@example.com`. */
const HELP = '<mailto:help@example.com>; rel="help"';

const closing = new AsyncDisposableStack();
const failures: number[] = [];
let chain: Chain;
let gateway: RunningGateway;
let older: RunningGateway;
let newer: RunningGateway;
let buyer: FreshAccount;
let folder: string;

const backend: RequestListener = ({ url = "", headers }, response) => {
  const failure = failures.shift();
  if (failure !== undefined || url.includes("nowhere")) {
    const error = failure === undefined ? "no such place" : "out of order";
    response.writeHead(failure ?? 404, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ error }));
  } else if (url === "/leads") {
    response.writeHead(302, { Location: "/dear" }).end();
  } else if (url === "/big" && headers.range !== undefined) {
    const from = Number(/\d+/.exec(headers.range)?.[0]);
    const range = `bytes ${from}-${BIG.length - 1}/${BIG.length}`;
    response.writeHead(206, { "Content-Range": range }).end(BIG.subarray(from));
  } else if (url === "/big") {
    response.writeHead(200, { "Content-Length": BIG.length }).end(BIG);
  } else {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ url, degrees: 21 }));
  }
};

const routes = `
  GET /weather: { price: $0.01, input: { queryParams: { city: { type: string, required: true } } } }
  GET /cities/:city: { price: $0.01 }
  GET /search: { price: $0.01 }
  GET /big: { price: $0.01 }
  GET /leads: { price: $0.01 }
  GET /dear: { price: $0.05 }
`;

beforeAll(async () => {
  chain = closing.use(await startChain());
  const start = async (more: string): Promise<RunningGateway> =>
    closing.use(await startGateway({ chain, routes, backend, more }));
  gateway = await start("support: help@example.com");
  older = await start("protocol: { v2: false }");
  newer = await start("protocol: { v1: false }");
  buyer = await richBuyer(chain);
  folder = await mkdtemp(join(tmpdir(), "coinslot-mistakes-"));
  closing.defer(() => rm(folder, { recursive: true }));
});

afterAll(() => closing.disposeAsync());

const weather = (of = gateway): string => `${of.url}/weather?city=Oslo`;

/** What is seen in a terminal. */
async function pay(url: string, ...words: readonly string[]): Promise<string> {
  const env = { COINSLOT_KEY: buyer.privateKey };
  const { stdout, stderr } = await runHere(["pay", url, "--keep", folder, ...words], env);
  return stdout + stderr;
}

async function curl(url: string, header?: string): Promise<string> {
  const { status, text } = await present(url, header ?? "");
  return `${status} ${text}`;
}

/** By their names in the table. */
const MISTAKES: Readonly<Record<string, () => Promise<string>>> = {
  "no wallet": async () => {
    const { stderr } = await runHere(["pay", weather(), "-y"]);
    return (await (await fetch(weather())).text()) + stderr;
  },
  "another network": async () => {
    const requirements = { ...(await quote(weather())), network: "base" };
    const payment = await signPayment({ account: buyer.account, requirements });
    const both = inBoth({ paymentPayload: payment, paymentRequirements: requirements });
    return (await pay(weather(), "-y", "--network", "base")) + (await curl(weather(), both[1]));
  },
  "an empty purse": async () => {
    const env = { COINSLOT_KEY: freshAccount().privateKey };
    return (await runHere(["pay", weather(), "-y"], env)).stderr;
  },
  "a signature that is declined": () => pay(weather()),
  "signed for a near miss of the domain": async () => {
    const requirements = await quote(weather());
    const elsewhere = { ...requirements, network: "base" };
    const signed = await signPayment({ account: buyer.account, requirements: elsewhere });
    const paymentPayload = { ...signed, network: requirements.network };
    return curl(weather(), inBoth({ paymentPayload, paymentRequirements: requirements })[1]);
  },
  "a missing or misspelt input": () => pay(`${gateway.url}/weather?ctiy=Oslo`, "-y"),
  "a literal `:city`": () => pay(`${gateway.url}/cities/:city`, "-y"),
  "a tab closed after paying": async () => {
    const header = await sign(buyer, weather());
    await present(weather(), header);
    return curl(weather(), header);
  },
  "a download that is cut": async () => {
    const url = `${gateway.url}/big`;
    const headers = { "X-PAYMENT": await sign(buyer, url) };
    const { body } = await fetch(url, { headers });
    const reader = body?.getReader();
    await reader?.read();
    await reader?.cancel();
    const rest = await fetch(url, { headers: { ...headers, Range: "bytes=65536-" } });
    const whole = await fetch(url, { headers });
    expect((await rest.bytes()).length).toBe(BIG.length - 65_536);
    expect((await whole.bytes()).length).toBe(BIG.length);
    return `${rest.status} ${whole.status}`;
  },
  "a new payment after a 5xx": async () => {
    failures.push(500);
    const told = await pay(`${gateway.url}/search?q=1`, "-y");
    failures.push(500);
    const url = `${gateway.url}/search?q=2`;
    const before = await chain.balanceOf(gateway.payee);
    await present(url, await sign(buyer, url));
    expect(await curl(url, await sign(buyer, url))).toContain("degrees");
    expect((await chain.balanceOf(gateway.payee)) - before).toBe(CHARGED["once"]);
    return told;
  },
  "another query after a 404": async () => {
    const told = await pay(`${gateway.url}/search?q=nowhere`, "-y");
    const [file = ""] = await readdir(folder);
    return told + (await pay(`${gateway.url}/search?q=Oslo`, "--payment", join(folder, file)));
  },
  "a payment whose attempts are used up": async () => {
    const url = `${gateway.url}/search?q=3`;
    const header = await sign(buyer, url);
    failures.push(500, 500, 500);
    for (const _ of [1, 2, 3]) {
      const { headers } = await present(url, header);
      expect(headers.get("link")).toContain(HELP);
    }
    const { text, headers } = await present(url, header);
    expect(headers.get("link")).toContain(HELP);
    return text + (await curl(url, await sign(buyer, url)));
  },
  "a redirect to what is dearer": () => pay(`${gateway.url}/leads`, "-y", "-L"),
  "version 1 where 2 alone is spoken": async () =>
    (await curl(weather(newer), await sign(buyer, weather()))) +
    (await pay(weather(newer), "-y", "--protocol", "1")),
  "version 2 where 1 alone is spoken": async () => {
    const header = await sign(buyer, weather(), { version: 2 });
    const { text } = await present(weather(older), header, {}, 2);
    return text + (await pay(weather(older), "-y", "--protocol", "2"));
  },
};

interface Row {
  readonly name: string;
  /** The exact words of both columns, … where they differ. */
  readonly phone: readonly string[];
  readonly terminal: readonly string[];
  readonly charged: string;
}

const rows = readFileSync(join(ROOT, "deploy/BUYERS.md"), "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| "))
  .slice(2)
  .map((line): Row => {
    const [, name = "", phone = "", terminal = "", , charged = ""] = line
      .split("|")
      .map((cell) => cell.trim());
    const wordsOf = (cell: string): string[] =>
      [...cell.matchAll(/`([^`]+)`/g)].map(([, words = ""]) => words);
    return { name, phone: wordsOf(phone), terminal: wordsOf(terminal), charged };
  });

/** Also in the script of the page, whose texts are put together there. */
const pageScript = readFileSync(join(ROOT, "src/web/paywall-v2-script.json"), "utf8");

test("each mistake of the table is made here", () => {
  expect(rows.map(({ name }) => name)).toEqual(Object.keys(MISTAKES));
});

test.each(rows)("$name: what is seen, and what is charged", async ({ name, ...row }) => {
  const payees = [gateway, older, newer].map(({ payee }) => payee);
  const balance = async (): Promise<bigint> => {
    const each = await Promise.all(payees.map((payee) => chain.balanceOf(payee)));
    return each.reduce((sum, one) => sum + one, 0n);
  };
  const before = await balance();
  const said = (await MISTAKES[name]?.()) ?? "";
  const paid = (await balance()) - before;
  for (const words of row.terminal) {
    let from = 0;
    for (const part of words.split("…")) {
      const at = said.indexOf(part, from);
      expect(at, `${part} in ${said}`).toBeGreaterThanOrEqual(0);
      from = at + part.length;
    }
  }
  for (const part of row.phone.flatMap((words) => words.split("…"))) {
    expect(pageScript + said).toContain(part.trim());
  }
  // That after a 5xx is made twice.
  const times = name === "a new payment after a 5xx" ? 2n : 1n;
  expect(paid).toBe((CHARGED[row.charged] ?? -1n) * times);
});
