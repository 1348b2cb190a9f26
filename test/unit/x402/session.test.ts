/** Sessions: whose they are, how long they count, and that nobody else makes one. */
import { describe, expect, test } from "vitest";
import { isAccountOn, Sessions, withoutSession } from "../../../src/x402/session.ts";

const NOW_MS = 1_700_000_000_500;
const HOUR_MS = 3_600_000;
const KEY = Buffer.alloc(32, 7);
const ADDRESS = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const account = { address: ADDRESS, network: "base", hasKey: true } as const;

const sessionsOf = (changes: object = {}): Sessions =>
  new Sessions({
    key: KEY,
    publicUrl: "https://shop.example",
    forMs: HOUR_MS,
    notBeforeMs: 0,
    ...changes,
  });
const sessions = sessionsOf();
const { token, untilMs } = sessions.issue(account, NOW_MS);

const isGood = (shown: string, nowMs = NOW_MS, by = sessions): boolean => by.read(shown, nowMs).ok;

describe("a session", () => {
  test("says whose it is until its end, in whole seconds, and not a millisecond longer", () => {
    expect(untilMs).toBe(1_700_003_600_000);
    const issuedMs = 1_700_000_000_000;
    const session = { kind: "session", ...account, issuedMs, untilMs };
    expect(sessions.read(token, NOW_MS)).toEqual({ ok: true, value: session });
    expect(isGood(token, untilMs - 1)).toBe(true);
    expect(isGood(token, untilMs)).toBe(false);
  });

  test("is good nowhere else: at another URL, under another secret", () => {
    expect(isGood(token, NOW_MS, sessionsOf({ publicUrl: "https://other.example" }))).toBe(false);
    expect(isGood(token, NOW_MS, sessionsOf({ key: Buffer.alloc(32, 8) }))).toBe(false);
    expect(isGood(token, NOW_MS, sessionsOf())).toBe(true);
  });

  test("is changed by nobody: account, kind of proof, end", () => {
    const [said = "", mac = ""] = token.split(".");
    const [network, address, hasKey, issued, until] = JSON.parse(atob(said));
    const changed = (...told: unknown[]): string => `${btoa(JSON.stringify(told))}.${mac}`;
    expect(isGood(changed(network, address, hasKey, issued, until))).toBe(true);
    expect(isGood(changed(network, ADDRESS.replace("8", "9"), hasKey, issued, until))).toBe(false);
    expect(isGood(changed(network, address, hasKey, issued, until + 1))).toBe(false);
    expect(isGood(changed("solana", address, hasKey, issued, until))).toBe(false);
    expect(isGood(changed(network, address, false, issued, until))).toBe(false);
  });

  test.each(["", ".", "x", "x.y", `${token}.`, ` ${token}`, "é", "x".repeat(513)])(
    "is none as %j",
    (shown) => {
      expect(isGood(shown)).toBe(false);
    },
  );

  test("ends with the time that is written for all, and lasts no longer than they do by now", () => {
    expect(isGood(token, NOW_MS, sessionsOf({ notBeforeMs: 1_700_000_000_000 }))).toBe(true);
    expect(isGood(token, NOW_MS, sessionsOf({ notBeforeMs: 1_700_000_000_001 }))).toBe(false);
    const shorter = sessionsOf({ forMs: 60_000 });
    expect(isGood(token, 1_700_000_059_999, shorter)).toBe(true);
    expect(isGood(token, 1_700_000_060_000, shorter)).toBe(false);
  });
});

describe("its cookie", () => {
  test("is for this host alone, over TLS, and for no script", () => {
    const cookie = sessions.cookie("t", 60);
    expect(cookie).toBe(
      "__Host-x402-session=t; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure",
    );
    const plain = sessionsOf({ publicUrl: "http://localhost:8402" });
    expect(plain.cookie("t", 60)).toBe(
      "x402-session=t; Path=/; Max-Age=60; HttpOnly; SameSite=Lax",
    );
  });

  test("is found among others, where there is one", () => {
    expect(sessions.inCookies(`a=b; __Host-x402-session=${token}; c=d`)).toBe(token);
    expect(sessions.inCookies(`x402-session=${token}`)).toBeUndefined();
    expect(sessions.inCookies("__Host-x402-session=a; __Host-x402-session=b")).toBeUndefined();
    expect(sessions.inCookies("a=__Host-x402-session=b")).toBeUndefined();
  });

  test.each([
    ["a=b; c=d", "a=b; c=d"],
    ["a=b; x402-session=t; c=d", "a=b; c=d"],
    ["x402-session=t; c=d", "c=d"],
    ["a=b;__Host-x402-session=t;c=d", "a=b;c=d"],
    ["a=b; x402-session=t", "a=b"],
    ["x402-session=t; __Host-x402-session=u", ""],
    ["my-x402-session=t", "my-x402-session=t"],
  ])("is taken out of %j", (cookies, left) => {
    expect(withoutSession(cookies)).toBe(left);
  });
});

test("an account is the same on all chains of its kind by a key, and on its own by code", () => {
  expect(isAccountOn("polygon", account)).toBe(true);
  expect(isAccountOn("solana", account)).toBe(false);
  const byCode = { ...account, hasKey: false };
  expect(["base", "polygon", "nowhere"].map((network) => isAccountOn(network, byCode))).toEqual([
    true,
    false,
    false,
  ]);
});
