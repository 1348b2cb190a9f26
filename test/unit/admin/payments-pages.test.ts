/** Which entries of the operator's page a browser is sent that comes back. */
import { expect, test } from "vitest";
import { TimelinePages } from "../../../src/admin/payments-pages.ts";
import { Tokens } from "../../../src/admin/payment-view.ts";
import { PaymentTimeline } from "../../../src/admin/timeline.ts";
import type { PaymentSummary } from "../../../src/ledger/books.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import type { PaymentOutcome } from "../../../src/telemetry/metrics.ts";
import { Timeline } from "../../../src/telemetry/timeline.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { ManualTime } from "../../support/manual-time.ts";
import { MemoryBooks } from "../../support/memory-books.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import { configOf } from "../app/config-of.ts";

const ALL = { find: "", needsMe: false };
const CONFIG = `facilitator: { listen: 127.0.0.1:4021, remote: [{ url: https://f.example.com }] }`;

/** The pages of one process, and requests that come to it. */
function startProcess(time: ManualTime, sold: readonly PaymentSummary[] = []) {
  const requests = new Timeline(() => time.now());
  const source = { key: {}, read: async (after: number) => requests.read(after) };
  const tokens = new Tokens(configOf(CONFIG));
  const books = Object.assign(new MemoryBooks(new MemoryStore()), { list: async () => sold });
  const timeline = new PaymentTimeline({
    sources: () => [source],
    books,
    tokens: () => tokens,
    now: () => time.now(),
  });
  const logger = createLogger({ level: "silent", format: "json" });
  const pages = new TimelinePages({ timeline, time, logger });
  const ask = (path: string, connection: string | null = null): void => {
    const head = { method: "GET", path, route: "GET /*", connection, target: path };
    const question = { ...head, presented: null, asked: [] };
    const entry = requests.begin(`asked-${path.slice(1)}-${connection}`, question);
    requests.end(entry, { status: 402, outcome: "challenged", ms: 1 }, null);
  };
  const pay = (
    path: string,
    outcome: PaymentOutcome,
    { key = null, connection = null }: { key?: string | null; connection?: string | null } = {},
  ): void => {
    const head = { method: "GET", path, route: "GET /*", connection, target: path };
    const presented = { version: 2, scheme: "exact", network: "base", payer: "0x01", members: [] };
    const entry = requests.begin(path.slice(1), { ...head, presented, asked: [] });
    requests.end(entry, { status: 402, outcome, ms: 1 }, key);
  };
  return { pages, ask, pay };
}

test("however many payments are refused, the one that was taken and not delivered is still shown", async () => {
  const time = new ManualTime();
  const { pages, pay } = startProcess(time);
  pay("/bought", "undelivered");
  for (let count = 0; count < 300; count += 1) {
    await time.advance(1);
    pay(`/refused/${count}`, count % 2 === 0 ? "refused" : "malformed");
  }
  const page = await pages.list(ALL);
  expect(page).toContain(">GET /bought<");
  expect(page).toContain(">GET /refused/299<");
  expect(page).not.toContain(">GET /refused/200<");
});

const SOLD: PaymentSummary = {
  key: "base/0x01/0x02" as PaymentKey,
  state: "DELIVERED",
  network: "base",
  asset: "0x03",
  amount: "1",
  payer: "0x01",
  payTo: "0x04",
  binding: "GET /sold",
  target: "/sold",
  facilitator: null,
  transaction: "0x05",
  heldTransaction: null,
  refund: null,
  isTransferBack: false,
  attempts: 1,
  renewableMs: 0,
  isLeft: false,
  keptUntilMs: null,
  repeatUntilMs: null,
  ledTo: null,
  isHeadOnly: false,
  failureCode: null,
  failureDetail: null,
  claimedMs: 0,
  updatedMs: 0,
};

test.each([
  ["DELIVERED", 1],
  ["FAILED", 0],
] as const)(
  "a refused request that names a payment stands for it only where that failed: %s",
  async (state, times) => {
    const { pages, pay } = startProcess(new ManualTime(), [{ ...SOLD, state }]);
    pay("/forged", "refused", { key: SOLD.key });
    const page = await pages.list(ALL);
    expect(page).toContain(">GET /forged<");
    expect(page.split(">GET /sold<")).toHaveLength(times + 1);
  },
);

test("a payment is told with the 402 of its own connection, and with nobody else's", async () => {
  const time = new ManualTime();
  const { pages, ask, pay } = startProcess(time);
  // One address: that of a proxy that nobody has named, or of many behind one.
  ask("/mine", "a");
  await time.advance(1_000);
  ask("/mine", "b");
  ask("/proxied");
  await time.advance(400_000);
  pay("/mine", "paid", { connection: "a" });
  pay("/other", "paid", { connection: "a" });
  pay("/proxied", "paid");
  const entries = (await pages.list(ALL))
    .split("<li id=")
    .map((each) => each.replace(/<[^>]*>/g, " "));
  const told = (path: string) => entries.filter((each) => each.includes(` GET /${path} `));
  const [mine = "", question = ""] = told("mine");
  expect(mine).toMatch(/401\.00 s\s+after the 402/);
  expect(question).toContain("asked to pay");
  for (const path of ["other", "proxied"]) {
    expect(told(path)[0]).toContain("none on this connection");
    expect(told(path)[0]).not.toContain("after the 402");
  }
});

test("one who follows a part of the list is told of that part, and of what leaves it", async () => {
  const time = new ManualTime();
  const { pages, pay } = startProcess(time);
  const asked = { find: "/wanted", needsMe: true };
  pay("/wanted/1", "undelivered");
  pay("/wanted/2", "paid");
  pay("/unwanted", "undelivered");
  const page = await pages.list(asked);
  expect(page.match(/<h2>[^<]*/g)).toEqual(["<h2>GET /wanted/1"]);
  const sent: string[] = [];
  const follower = { send: (event: unknown) => sent.push(JSON.stringify(event)), end() {} };
  const stop = pages.follow(versionIn(page), asked, follower);
  await time.until(() => sent.length > 0);
  pay("/wanted/3", "undelivered");
  pay("/unwanted/3", "undelivered");
  await time.until(() => sent.length > 1);
  stop();
  pages.stop();
  expect(sent.join()).toContain("GET /wanted/3");
  expect(sent.join()).not.toContain("/unwanted");
  expect(sent.join()).not.toContain("/wanted/2");
});

const versionIn = (page: string): number => Number(/data-version="(\d+)"/.exec(page)?.[1]);

test("a browser that followed the process before is sent everything, however much changed since", async () => {
  const time = new ManualTime();
  const before = startProcess(time);
  before.ask("/old");
  const seen = versionIn(await before.pages.list(ALL));

  await time.advance(5_000);
  const now = startProcess(time);
  for (const path of ["/a", "/b", "/c"]) {
    now.ask(path);
    await now.pages.list(ALL);
  }
  const sent: string[] = [];
  const follower = { send: (event: unknown) => sent.push(JSON.stringify(event)), end() {} };
  const stop = now.pages.follow(seen, ALL, follower);
  await time.until(() => sent.length > 0);
  stop();
  now.pages.stop();

  for (const path of ["GET /a", "GET /b", "GET /c"]) expect(sent.join()).toContain(`>${path}<`);
});

test("a browser that is cut off in the middle of an update asks for all of it again", async () => {
  const time = new ManualTime();
  const { pages, pay } = startProcess(time);
  const first = versionIn(await pages.list(ALL));
  for (let count = 0; count < 100; count += 1) pay(`/${"long/".repeat(30)}${count}`, "paid");
  const sent: number[] = [];
  const send = (event: Parameters<Parameters<typeof pages.follow>[2]["send"]>[0]): void => {
    if (typeof event === "object") sent.push(event.version);
  };
  const stop = pages.follow(first, ALL, { send, end() {} });
  await time.until(() => sent.some((version) => version > first));
  stop();
  pages.stop();
  expect(sent.length).toBeGreaterThan(1);
  expect(sent.slice(0, -1).every((version) => version === first)).toBe(true);
});
