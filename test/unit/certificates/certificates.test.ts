/** How often an authority is asked where the ledger does not keep what came of it, and where a clock was wrong. */
import { expect, onTestFinished, test } from "vitest";
import { Certificates } from "../../../src/certificates/certificates.ts";
import { keep, readKept } from "../../../src/certificates/kept.ts";
import type { KeptCertificates } from "../../../src/ledger/certificates.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime, type Time } from "../../../src/time/time.ts";
import { EXPIRED, FIRST } from "../../support/listener-tls.ts";
import { MemoryLedger } from "../../support/memory-ledger.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import { MovableTime } from "../../support/movable-time.ts";
import { scriptedAuthority } from "./scripted-authority.ts";

const DOMAIN = "shop.example";
const DAY_MS = 86_400_000;

async function looking(
  { directory, ca }: { readonly directory: string; readonly ca: string },
  store: KeptCertificates,
  {
    domains = () => [DOMAIN],
    unserved = () => undefined,
    time = systemTime,
    logged = () => undefined,
  }: Partial<Looking> = {},
): Promise<void> {
  const certificates = new Certificates({
    settings: () => ({ directory, ca, email: null, domains: domains(), challenges: ["http-01"] }),
    store,
    time,
    logger: createLogger({ level: "info", format: "json", destination: { write: logged } }),
    meter: {
      certificate: () => undefined,
      refused: () => undefined,
      awaited: () => undefined,
      unserved,
    },
  });
  onTestFinished(() => certificates.stop());
  await certificates.start();
}

interface Looking {
  readonly domains: () => readonly string[];
  readonly unserved: (name: string) => void;
  readonly time: Time;
  readonly logged: (line: string) => void;
}

function kept(): KeptCertificates {
  const ledger = new MemoryLedger({ store: new MemoryStore(), time: systemTime, life: "one" });
  return ledger.certificates;
}

test("a ledger that keeps no failure does not make an authority be asked again at once", async () => {
  const { asked, ...place } = await scriptedAuthority();
  const store = kept();
  const put: KeptCertificates["put"] = async (text) => {
    if (/^(?:order|failure) /.test(text.name)) throw new Error("the disk is full");
    return store.put(text);
  };
  await looking(place, { ...store, put });
  const orders = () => asked.filter((url) => url === "/order").length;
  await expect.poll(orders, { timeout: 5_000 }).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 3_500));
  expect(orders()).toBe(1);
}, 15_000);

test.each([
  ["that a clock far ahead has kept is over", 400 * DAY_MS, 1],
  ["that the longest wait of an authority has made is kept to", DAY_MS, 0],
])(
  "a pause %s",
  async (_, aheadMs, expected) => {
    const { asked, ...place } = await scriptedAuthority();
    const store = kept();
    await keep(store, ["failure", DOMAIN], {
      directory: place.directory,
      failures: 1,
      againMs: Date.now() + aheadMs,
      reason: "",
    });
    await looking(place, store);
    const orders = () => asked.filter((url) => url === "/order").length;
    if (expected === 1) await expect.poll(orders, { timeout: 5_000 }).toBe(1);
    else await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect(orders()).toBe(expected);
  },
  15_000,
);

test("what its library throws of an authority's words is cut, and escaped", async () => {
  const { asked: _, ...place } = await scriptedAuthority({
    order: { status: 202, body: { detail: `\u001b[31m${"x".repeat(100_000)}` } },
  });
  const store = kept();
  await looking(place, store);
  const failure = async () => (await readKept(store)).get("failure", DOMAIN);
  await expect.poll(failure, { timeout: 5_000 }).toBeDefined();
  const { reason = "" } = (await failure()) ?? {};
  expect(reason).toMatch(/^\ufffd\[31mx+…$/);
  expect(reason.length).toBeLessThan(500);
}, 15_000);

test("a name that leaves the file has no certificate that could end", async () => {
  const { asked: _, ...place } = await scriptedAuthority();
  let domains = [DOMAIN, "gone.example"];
  const gone: string[] = [];
  const unserved = (name: string): void => void gone.push(name);
  await looking(place, kept(), { domains: () => domains, unserved });
  expect(gone).toEqual([]);
  domains = [DOMAIN];
  await expect.poll(() => gone, { timeout: 5_000 }).toEqual(["gone.example"]);
}, 15_000);

/** A clock that was set some eighty years ahead, when even the certificates of these tests are old. */
function aheadOfTime(): MovableTime {
  const time = new MovableTime();
  time.offsetMs = 29_220 * DAY_MS;
  return time;
}

test("a clock that is ahead of the authority's orders nothing that is not due there, and is told of", async () => {
  const { asked, ...place } = await scriptedAuthority();
  const { directory } = place;
  const store = kept();
  await keep(store, ["certificate", DOMAIN], { domain: DOMAIN, directory, ...FIRST });
  const lines: string[] = [];
  await looking(place, store, { time: aheadOfTime(), logged: (line) => void lines.push(line) });
  const failure = async () => (await readKept(store)).get("failure", DOMAIN);
  await expect.poll(failure, { timeout: 5_000 }).toMatchObject({ failures: 1 });
  expect((await failure())?.reason).toBe(
    "the clock of this machine is 29220 days ahead of the authority's, by which nothing is due",
  );
  expect(asked).toContain("/account");
  expect(asked).not.toContain("/order");
  expect(lines.join("")).toContain("none was asked for; set the clock of this machine");
}, 15_000);

test("a clock that is ahead keeps nobody from a first certificate", async () => {
  const { asked, ...place } = await scriptedAuthority();
  const lines: string[] = [];
  const logged = (line: string): void => void lines.push(line);
  await looking(place, kept(), { time: aheadOfTime(), logged });
  await expect.poll(() => asked.includes("/order"), { timeout: 5_000 }).toBe(true);
  expect(lines.join("")).toContain("the clock of this machine is not that of the authority");
}, 15_000);

test("a certificate that has ended takes the place of none that has not", async () => {
  const { directory, ca } = await scriptedAuthority({ cert: EXPIRED.cert });
  const store = kept();
  const before = { domain: DOMAIN, directory: "https://before.example/dir", ...FIRST };
  await keep(store, ["certificate", DOMAIN], before);
  const url = new URL("/order/1", directory).href;
  await keep(store, ["order", DOMAIN], { directory, url, key: EXPIRED.key });
  const lines: string[] = [];
  await looking({ directory, ca }, store, { logged: (line) => void lines.push(line) });
  const failure = async () => (await readKept(store)).get("failure", DOMAIN);
  await expect.poll(failure, { timeout: 5_000 }).toMatchObject({
    reason: "the certificate that it gave has ended, and the one in use has not",
  });
  const left = await readKept(store);
  expect([left.get("certificate", DOMAIN), left.get("order", DOMAIN)]).toEqual([before, undefined]);
  expect(lines.join("")).toContain("the one in use stays");
}, 15_000);
