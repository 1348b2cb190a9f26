/** By which account an authority is asked, and how many it is asked for. */
import { expect, test } from "vitest";
import { openAccount } from "../../../src/certificates/account.ts";
import { keep, readKept } from "../../../src/certificates/kept.ts";
import type { KeptCertificates } from "../../../src/ledger/certificates.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { FIRST } from "../../support/listener-tls.ts";
import { MemoryLedger } from "../../support/memory-ledger.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import { MovableTime } from "../../support/movable-time.ts";
import { scriptedAuthority, type Said, type Scripted } from "./scripted-authority.ts";

const DAY_MS = 86_400_000;
const GOOD: Said = { status: 201, body: { status: "valid" } };
const DEACTIVATED: Said = {
  status: 403,
  body: {
    type: "urn:ietf:params:acme:error:unauthorized",
    detail: "An account with the provided public key exists but is deactivated",
  },
};

async function stage(scripted: Scripted) {
  const { directory, ca, ...authority } = await scriptedAuthority(scripted);
  const time = new MovableTime();
  const ledger = new MemoryLedger({ store: new MemoryStore(), time, life: "one" });
  const { certificates: store } = ledger;
  const log: string[] = [];
  const destination = { write: (line: string) => void log.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  const { signal } = new AbortController();
  /** What became of it: "" where the authority knows us. */
  const open = async (put: KeptCertificates["put"] = (text) => store.put(text)) => {
    const kept = await readKept(store);
    const ground = { kept, store: { put }, time, logger, signal };
    try {
      const opened = await openAccount({ directory, ca, email: null }, ground);
      await opened.close();
      return "";
    } catch (cause) {
      return String(cause);
    }
  };
  const account = async () => (await readKept(store)).get("account", directory);
  // As versions before have kept it.
  await keep(store, ["account", directory], { key: FIRST.key });
  return { ...authority, time, log, open, account };
}

test("an account that counts is asked by, and no other is made", async () => {
  const { open, keys, account } = await stage({ account: () => GOOD });
  expect(await open()).toBe("");
  expect(await open()).toBe("");
  expect(keys).toHaveLength(1);
  expect(await account()).toEqual({ key: FIRST.key });
});

test("in place of an account that the authority takes no order from one other is made, and that is said", async () => {
  const { open, keys, account, log } = await stage({
    account: (key) => (key === 0 ? DEACTIVATED : GOOD),
  });
  expect(await open()).toBe("");
  expect(await open()).toBe("");
  expect(keys).toHaveLength(2);
  expect((await account())?.key).not.toBe(FIRST.key);
  const said = log.filter((line) => line.includes("another one was made"));
  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(/is deactivated.*\/account\/1/);
});

test("an account that is told to be deactivated, and not refused, is none either", async () => {
  const { open, keys } = await stage({
    account: (key) => (key === 0 ? { status: 200, body: {} } : GOOD),
    known: { status: 200, body: { status: "deactivated" } },
  });
  expect(await open()).toBe("");
  expect(keys).toHaveLength(2);
});

test("an authority that refuses every account is asked for one more a day, and the one that it knew is kept", async () => {
  const { open, keys, account, time } = await stage({ account: () => DEACTIVATED });
  for (let time = 0; time < 3; time += 1) expect(await open()).toContain("is deactivated");
  expect(keys).toHaveLength(2);
  expect((await account())?.key).toBe(FIRST.key);
  time.offsetMs = DAY_MS - 60_000;
  await open();
  expect(keys).toHaveLength(2);
  time.offsetMs = DAY_MS + 60_000;
  await open();
  expect(keys).toHaveLength(3);
});

test("nor does one that takes each account once, or a clock that jumps back, lead to more", async () => {
  const seen: number[] = [];
  const { open, keys, time } = await stage({
    account: (key) => (key > 0 && !seen.includes(key) ? (seen.push(key), GOOD) : DEACTIVATED),
  });
  expect(await open()).toBe("");
  for (let time = 0; time < 3; time += 1) expect(await open()).toContain("is deactivated");
  time.offsetMs = 60_000 - DAY_MS;
  expect(await open()).toContain("is deactivated");
  expect(keys).toHaveLength(2);
});

test("none is asked for where that could not be kept", async () => {
  const { open, keys } = await stage({ account: () => DEACTIVATED });
  const full = async () => Promise.reject(new Error("the disk is full"));
  for (let time = 0; time < 3; time += 1) expect(await open(full)).toContain("the disk is full");
  expect(keys).toHaveLength(1);
});

test("another refusal than of the account makes none", async () => {
  const limited = { type: "urn:ietf:params:acme:error:rateLimited", detail: "many" };
  const { open, keys } = await stage({ account: () => ({ status: 429, body: limited }) });
  expect(await open()).toContain("rateLimited: many");
  expect(keys).toHaveLength(1);
});
