/** Certificates that replicas share, and an authority that is not there. */
import { describe, expect, test } from "vitest";
import { openLedger } from "../../../src/app/store.ts";
import { openAuthority } from "../../../src/certificates/authority.ts";
import { keep, readKept } from "../../../src/certificates/kept.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";
import { EXPIRED, FIRST } from "../../support/listener-tls.ts";
import { HAS_PEBBLE, startPebble, type Pebble } from "../../support/pebble.ts";
import { startPostgres } from "../../support/postgres.ts";
import { ask, freePorts, openStage, SHOP } from "./stage.ts";

const PATIENT = { timeout: 60_000, interval: 100 };
const FAILURES = `coinslot_acme_failures_total{domain="${SHOP}"`;

describe.skipIf(!HAS_PEBBLE)("certificates of an authority (pebble)", () => {
  test("are asked for by one replica, whichever the authority looks at, and served by all", async () => {
    await using postgres = await startPostgres();
    const store = await postgres.database();
    const [asking, looked] = [await freePorts(), await freePorts()];
    const place = { httpPort: looked.http, tlsPort: looked.tls };
    await using authority = await startPebble(place);
    const options = { authority, store, challenge: "tls-alpn-01" };
    // The first has the right to ask before the second is there, to which alone the authority comes.
    await using first = await openStage({ ...options, ports: asking });
    const root = await authority.root();
    await using second = await openStage({ ...options, ports: looked });
    const serials: string[] = [];
    for (const { tls } of [asking, looked]) {
      const seen = () => ask(tls, root).catch(String);
      await expect.poll(seen, PATIENT).toMatchObject({ status: 200 });
      serials.push((await ask(tls, root)).serial);
    }
    expect(new Set(serials).size).toBe(1);
    expect(authority.output().match(/Issued certificate/g)).toHaveLength(1);
    for (const each of [first, second])
      expect(await each.metrics(FAILURES)).toEqual([expect.stringMatching(/ 0$/)]);
  }, 60_000);

  test("are served on while the authority is not there, and got when it is back", async () => {
    const ports = await freePorts();
    const place = { httpPort: ports.http, tlsPort: ports.tls };
    await using authority = await startPebble(place);
    const { directory } = authority;
    await using postgres = await startPostgres();
    const { url, ledger } = await openStore(await postgres.database());
    await using _closing = { [Symbol.asyncDispose]: () => ledger.close() };
    const { certificates } = ledger;
    await keep(certificates, ["certificate", SHOP], { ...EXPIRED, domain: SHOP, directory });
    await authority.stop();
    await using stage = await openStage({ authority, ports, store: url, challenge: "http-01" });
    // What is there is old, and nobody is there to give another: it is served, and the next attempt has its time.
    const failures = async () => Number((await stage.metrics(FAILURES))[0]?.split(" ").at(-1));
    await expect.poll(failures, PATIENT).toBe(1);
    await expect(ask(ports.tls, EXPIRED.cert)).rejects.toThrow(/expired/);
    const failure = (await readKept(certificates)).get("failure", SHOP);
    expect(failure).toMatchObject({ failures: 1, directory });
    expect(failure?.reason).toMatch(/^it cannot be asked: .*ECONNREFUSED/);
    const waitMs = (failure?.againMs ?? 0) - Date.now();
    expect(waitMs).toBeGreaterThan(60_000);
    expect(waitMs).toBeLessThan(140_000);
    await authority.start();
    // As if the pause were over.
    await keep(certificates, ["failure", SHOP], { directory, failures: 1, againMs: 0, reason: "" });
    const root = await authority.root();
    await expect
      .poll(() => ask(ports.tls, root).catch(String), PATIENT)
      .toMatchObject({ status: 200 });
    expect((await readKept(certificates)).get("failure", SHOP)).toBeUndefined();
  }, 60_000);

  test("are refused with the authority's reason, escaped and cut, and asked for by the other challenge and another account", async () => {
    const ports = await freePorts();
    // Nobody is where it looks by http-01.
    await using authority = await startPebble({ httpPort: 1, tlsPort: ports.tls });
    const { directory } = authority;
    await using postgres = await startPostgres();
    const { url, ledger } = await openStore(await postgres.database());
    await using _closing = { [Symbol.asyncDispose]: () => ledger.close() };
    // The account was deactivated since the last certificate: another one is made.
    await deactivate(authority, FIRST.key);
    await keep(ledger.certificates, ["account", directory], { key: FIRST.key });
    await using _stage = await openStage({ authority, ports, store: url, challenge: "both" });
    const failed = async () => (await readKept(ledger.certificates)).get("failure", SHOP);
    await expect.poll(failed, PATIENT).toMatchObject({ failures: 1 });
    expect((await failed())?.reason).toMatch(/^http-01 failed: .*connection refused/);
    const failure = { directory, failures: 1, againMs: 0, reason: "" };
    await keep(ledger.certificates, ["failure", SHOP], failure);
    const root = await authority.root();
    await expect
      .poll(() => ask(ports.tls, root).catch(String), PATIENT)
      .toMatchObject({ status: 200 });
    const account = (await readKept(ledger.certificates)).get("account", directory);
    expect(account?.key).toContain("PRIVATE KEY");
    expect(account?.key).not.toBe(FIRST.key);
  }, 60_000);
});

/** Makes the account of a key, and ends it. */
async function deactivate(authority: Pick<Pebble, "directory" | "ca">, accountKey: string) {
  const { signal } = new AbortController();
  const opened = await openAuthority({ ...authority, accountKey, signal });
  await opened.client.createAccount({ termsOfServiceAgreed: true });
  const { status } = await opened.client.updateAccount({ status: "deactivated" });
  expect(status).toBe("deactivated");
  await opened.close();
}

/** The ledger of a stage, as a replica of it has it. */
async function openStore(url: string) {
  const logger = createLogger({ level: "silent", format: "json" });
  const { Secret } = await import("../../../src/config/facilitator/secret.ts");
  const place = new URL(url).host;
  const store = { kind: "postgres", url: new Secret(url), place, encryption: "none" } as const;
  return { url, ledger: await openLedger({ store, webhooks: [] }, { logger, time: systemTime }) };
}
