/** The book of an agent's purchases: what counts in a budget and until when, what is kept, and who may have it. */
import {
  copyFile,
  link,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  keyOf,
  MAX_KEPT_ANSWERS,
  MAX_PURCHASES,
  PurchaseBook,
  type AgentPurchase,
  type NewPurchase,
} from "../../../../src/buyer/agent/purchase-book.ts";

const NOON = Date.parse("2026-08-01T12:00:00Z");
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const PAYMENT = { version: 2, value: "e30=" } as const;

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-book-"));
  path = join(folder, "below", "purchases.db");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

function open(at = path): PurchaseBook {
  const book = PurchaseBook.open(at);
  if (!book.ok) throw new Error(book.error);
  return book.value;
}

const purchase: NewPurchase = {
  key: keyOf(["a"]),
  way: "payment",
  at: NOON,
  seller: "a",
  what: "GET https://a/",
  dollars: 5n,
  amount: "$5",
  network: "base",
  payTo: "0x1",
  payer: "0x2",
};

function reserve(book: PurchaseBook, more: Partial<NewPurchase> = {}): number {
  const id = book.reserve({ ...purchase, ...more });
  if (!id.ok) throw new Error(id.error);
  return id.value;
}

const sent = (liveUntil: number) => ({ payment: PAYMENT, liveUntil, session: "2025-11-25 s" });

const known = (state: AgentPurchase["state"], more: Partial<AgentPurchase> = {}) => ({
  state,
  transaction: null,
  reason: "",
  answer: null,
  ...more,
});

const answer = {
  status: 200,
  contentType: "",
  bytes: 1,
  isCut: false,
  encoding: "text",
  body: "a",
} as const;

test("what is reserved, signed, refused, served and over counts for its day, and what never left does not", () => {
  using book = disposable(open());
  expect(book.spent(NOON, "a")).toEqual({ inAll: 0n, atSeller: 0n });
  for (const state of ["open", "refused", "served", "over"] as const) {
    const id = reserve(book, { seller: state });
    book.keep(id, sent(NOON + HOUR));
    book.conclude(id, known(state));
  }
  reserve(book);
  expect(book.spent(NOON, "a")).toEqual({ inAll: 25n, atSeller: 5n });
  expect(book.spent(NOON, "refused")).toEqual({ inAll: 25n, atSeller: 5n });
  const unsent = reserve(book, { dollars: 100n });
  book.keep(unsent, sent(NOON + HOUR));
  book.conclude(unsent, known("void"));
  expect(book.spent(NOON, "a").inAll).toBe(25n);
  // What an account may have been debited counts, and then what it was.
  const debited = reserve(book, { way: "account", dollars: 100n });
  book.keep(debited, { payment: null, liveUntil: 0, session: null });
  expect(book.spent(NOON, "a")).toEqual({ inAll: 125n, atSeller: 105n });
  book.conclude(debited, known("served", { dollars: 7n }));
  expect(book.spent(NOON, "a")).toEqual({ inAll: 32n, atSeller: 12n });
});

test("what can still be settled counts on the next day, too, and only as long as it can", () => {
  using book = disposable(open());
  const midnight = Date.parse("2026-08-02T00:00:00Z");
  for (const [state, liveUntil] of [
    ["open", midnight + HOUR],
    ["refused", midnight + HOUR],
    ["served", midnight + HOUR],
    ["open", midnight - 1],
  ] as const) {
    const id = reserve(book);
    book.keep(id, sent(liveUntil));
    if (state !== "open") book.conclude(id, known(state));
  }
  expect(book.spent(midnight - 1, "a").inAll).toBe(20n);
  expect(book.spent(midnight, "a").inAll).toBe(10n);
  expect(book.spent(midnight + HOUR, "a").inAll).toBe(0n);
});

test("what a later day has paid counts, too, when the clock was set back behind it", () => {
  using book = disposable(open());
  const midnight = Date.parse("2026-08-02T00:00:00Z");
  const id = reserve(book, { at: midnight });
  book.keep(id, sent(midnight + HOUR));
  book.conclude(id, known("served"));
  expect(book.spent(midnight - 1, "a")).toEqual({ inAll: 5n, atSeller: 5n });
  expect(book.spent(midnight + DAY, "a").inAll).toBe(0n);
});

test("the next life finds what was written, and counts nothing that was never signed", () => {
  const first = open();
  const id = reserve(first);
  first.keep(id, sent(NOON + HOUR));
  reserve(first, { key: keyOf(["b"]), dollars: 100n });
  first.close();
  using book = disposable(open());
  expect(book.latest(purchase.key)).toMatchObject({
    state: "open",
    payment: PAYMENT,
    session: "2025-11-25 s",
    dollars: 5n,
  });
  expect(book.latest(keyOf(["b"]))).toMatchObject({ state: "void" });
  expect(book.spent(NOON, "a").inAll).toBe(5n);
});

test("what was served stays served, keeps its answer, and forgets its payment", () => {
  using book = disposable(open());
  const id = reserve(book);
  book.keep(id, sent(NOON + HOUR));
  book.conclude(id, known("open", { transaction: "0x1", reason: "cut" }));
  expect(book.byId(id)).toMatchObject({ state: "open", transaction: "0x1", payment: PAYMENT });
  book.conclude(id, known("served", { answer }));
  book.conclude(id, known("over", { reason: "late" }));
  expect(book.byId(id)).toMatchObject({
    state: "served",
    transaction: "0x1",
    answer,
    payment: null,
  });
});

test("the newest answers are kept, and of purchases as many as it holds: today's are not dropped for room", () => {
  using book = disposable(open(":memory:"));
  for (let count = 0; count < MAX_KEPT_ANSWERS + 3; count += 1) {
    const id = reserve(book);
    book.keep(id, sent(NOON + HOUR));
    book.conclude(id, known("served", { answer }));
  }
  const kept = book.list(MAX_PURCHASES).filter((each) => each.answer !== null);
  expect(kept).toHaveLength(MAX_KEPT_ANSWERS);
  expect(kept.at(-1)?.id).toBe(4);
  for (let count = MAX_KEPT_ANSWERS + 3; count < MAX_PURCHASES; count += 1) reserve(book);
  expect(book.reserve(purchase)).toMatchObject({ ok: false });
  // A day later the oldest make room, but for what is not over.
  book.keep(1, sent(NOON + 3 * DAY));
  expect(book.reserve({ ...purchase, at: NOON + DAY })).toMatchObject({ ok: true });
  expect(book.byId(1)).toMatchObject({ state: "open" });
  expect(book.byId(2)).toBeUndefined();
  expect(book.list(MAX_PURCHASES + 1)).toHaveLength(MAX_PURCHASES);
});

test("one process has it at a time, and nobody else may read it", async () => {
  const first = open();
  expect(PurchaseBook.open(path)).toMatchObject({
    error: expect.stringContaining("another process has the purchases"),
  });
  for (const name of await readdir(join(folder, "below"))) {
    expect((await stat(join(folder, "below", name))).mode & 0o077, name).toBe(0);
  }
  first.close();
  open().close();
  expect(PurchaseBook.open(join(folder, "below", "purchases.db", "x"))).toMatchObject({
    ok: false,
  });
});

test("it is the same file under every name, and one that has two is not opened", async () => {
  const first = open();
  reserve(first);
  const below = (name: string) => join(folder, "below", name);
  await symlink("purchases.db", below("soft.db"));
  await link(path, below("hard.db"));
  for (const name of ["soft.db", "hard.db"]) {
    expect(PurchaseBook.open(below(name)), name).toMatchObject({
      error: expect.stringContaining("another process has the purchases"),
    });
  }
  first.close();
  for (const name of ["soft.db", "hard.db", "purchases.db"]) {
    expect(PurchaseBook.open(below(name)), name).toMatchObject({
      error: expect.stringContaining("has 2 names (hard links)"),
    });
  }
  await rm(below("hard.db"));
  using book = disposable(open(below("soft.db")));
  expect(book.list(2)).toHaveLength(1);
});

test("nothing is reserved in a file that is not in its place any more, or has got another name", async () => {
  using book = disposable(open());
  reserve(book);
  const other = join(folder, "below", "other.db");
  const away = { ok: false, error: expect.stringContaining("while it was open") };
  await link(path, other);
  expect(book.reserve(purchase)).toMatchObject(away);
  await rm(path);
  expect(book.reserve(purchase)).toMatchObject(away);
  open().close();
  expect(book.reserve(purchase)).toMatchObject(away);
  await rename(other, path);
  reserve(book);
});

test("what is done is in the one file, as whoever moves it after a crash moves nothing else", async () => {
  const first = open();
  const id = reserve(first);
  first.keep(id, sent(NOON + HOUR));
  const moved = join(folder, "moved.db");
  await copyFile(path, moved);
  first.close();
  using book = disposable(open(moved));
  expect(book.spent(NOON, "a").inAll).toBe(5n);
});

test("calls are told apart by all of their parts", () => {
  expect(keyOf(["a", "b"])).not.toBe(keyOf(["ab"]));
  expect(keyOf(["a", "", "b"])).not.toBe(keyOf(["a", "b", ""]));
});

function disposable(book: PurchaseBook): PurchaseBook & Disposable {
  return Object.assign(book, { [Symbol.dispose]: () => book.close() });
}

test.each<[string, string, RegExp]>([
  [
    "a later version of this program",
    "PRAGMA user_version = 2",
    /a later version .* has written it/,
  ],
  ["another program", "CREATE TABLE payments (id INTEGER)", /a database of something else/],
])("a file of %s is left as it is", async (_, sql, said) => {
  const other = join(folder, "other.db");
  const database = new DatabaseSync(other);
  database.exec(sql);
  database.close();
  const before = await readFile(other);
  expect(PurchaseBook.open(other)).toMatchObject({ ok: false, error: expect.stringMatching(said) });
  expect(await readFile(other)).toEqual(before);
});

test("a file that is no database, or a part of one, is told as that and left", async () => {
  const book = open();
  for (let times = 0; times < 100; times += 1) reserve(book, { key: keyOf([String(times)]) });
  book.close();
  const whole = await readFile(path);
  for (const bytes of [Buffer.alloc(8_192, "x"), whole.subarray(0, whole.length / 2)]) {
    await writeFile(path, bytes);
    expect(PurchaseBook.open(path)).toMatchObject({
      ok: false,
      error: expect.stringMatching(
        /cannot be opened: (?:file is not a database|database disk image is malformed)/,
      ),
    });
    expect(await readFile(path)).toEqual(bytes);
  }
});

test("by another name it is the same file, and has one process", async () => {
  const book = open();
  const link = join(folder, "link.db");
  await symlink(path, link);
  expect(PurchaseBook.open(link)).toMatchObject({ ok: false });
  book.close();
  reserve(open(link));
});
