/** Certificates of a real authority (Pebble), from a gateway that has none to clients that trust nobody else. */
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { HAS_PEBBLE, startPebble } from "../../support/pebble.ts";
import { Site } from "../../support/serve.ts";
import { backend } from "../gateway/stage.ts";
import { ask, askPlain, configOf, freePorts, openStage, OTHER, SHOP } from "./stage.ts";

const PATIENT = { timeout: 60_000, interval: 100 };
const EXPIRY = `coinslot_tls_certificate_expiry_timestamp_seconds{file="${SHOP}"`;
const FAILURES = `coinslot_acme_failures_total{domain="${SHOP}"`;

function valueOf([line = ""]: readonly string[]): number {
  return Number(line.split(" ").at(-1));
}

describe.skipIf(!HAS_PEBBLE)("certificates of an authority (pebble)", () => {
  test("are got by http-01, for the names of the file and for no other", async () => {
    const ports = await freePorts();
    await using authority = await startPebble({ httpPort: ports.http, tlsPort: ports.tls });
    await using stage = await openStage({ authority, ports, challenge: "http-01" });
    const root = await authority.root();
    // Until there is one, no handshake is answered with anything that a client might be told to accept.
    await expect(ask(ports.tls, root)).rejects.toThrow(/handshake failure/);
    expect(valueOf(await stage.metrics(EXPIRY))).toBe(0);
    const seen = () => ask(ports.tls, root).catch(String);
    await expect.poll(seen, PATIENT).toMatchObject({ status: 200, body: "hello" });
    // Names are taken up by a reload.
    await expect(ask(ports.tls, root, OTHER)).rejects.toThrow(/altnames/);
    expect(await stage.rename([SHOP, OTHER])).toBe(true);
    const other = () => ask(ports.tls, root, OTHER).catch(String);
    await expect.poll(other, PATIENT).toMatchObject({ status: 200, body: "hello" });
    expect(valueOf(await stage.metrics(EXPIRY))).toBeGreaterThan(Date.now() / 1000);
    expect(valueOf(await stage.metrics(FAILURES))).toBe(0);
    // A name that somebody thought of gets what there is, and asks the authority for nothing.
    await expect(ask(ports.tls, root, "a.coinslot.dev")).rejects.toThrow(/altnames/);
    expect(authority.output()).not.toContain("a.coinslot.dev");
    expect(await askPlain(ports.http, "/free?x=1")).toEqual({
      status: 308,
      location: `https://${SHOP}/free?x=1`,
    });
    const away = { status: 308, location: `https://${OTHER}/.well-known/acme-challenge/guess` };
    expect(await askPlain(ports.http, "/.well-known/acme-challenge/guess", OTHER)).toEqual(away);
    expect(await askPlain(ports.http, "/", "evil.example")).toMatchObject({
      location: `https://${SHOP}/`,
    });
  }, 60_000);

  test("are got by tls-alpn-01 and renewed under load, without a request that fails", async () => {
    const ports = await freePorts();
    const life = { lifeSeconds: 32, refusedNonces: 40 };
    await using authority = await startPebble({ httpPort: 1, tlsPort: ports.tls, ...life });
    await using _stage = await openStage({ authority, ports, challenge: "tls-alpn-01" });
    const root = await authority.root();
    // Somebody who says nothing, and somebody who says his hello in pieces, while an authority may come.
    const silent = connect(ports.tls, "127.0.0.1").on("error", () => undefined);
    await expect
      .poll(() => ask(ports.tls, root).catch(String), PATIENT)
      .toMatchObject({ status: 200 });
    const serials = new Set<string>();
    const failed: unknown[] = [];
    const untilMs = Date.now() + 60_000;
    while (serials.size < 2 && Date.now() < untilMs) {
      const [seen] = await Promise.allSettled([ask(ports.tls, root)]);
      if (seen.status === "rejected" || seen.value.status !== 200) failed.push(seen);
      else serials.add(seen.value.serial);
    }
    silent.destroy();
    expect(failed).toEqual([]);
    expect(serials.size).toBe(2);
  }, 90_000);

  test("go on after a kill in the middle of an order, in workers, and are asked for once", async () => {
    const ports = await freePorts();
    await using authority = await startPebble({ httpPort: ports.http, tlsPort: ports.tls });
    const origin = await backend((_, response) => void response.end("hello"));
    await using site = await Site.create();
    const options = { authority, ports, challenge: "http-01", workers: 2, redirect: false };
    await site.writeWhole(
      configOf(options, { store: site.store, origin }).replace("level: silent", "level: info"),
    );
    const first = await site.launch({});
    await expect
      .poll(() => first.output().stdout, PATIENT)
      .toContain("the authority looks by http-01");
    await first.end("SIGKILL");
    const second = await site.launch({});
    const root = await authority.root();
    await expect
      .poll(() => ask(ports.tls, root).catch(String), PATIENT)
      .toMatchObject({ status: 200 });
    expect(second.output().stdout).toContain("going on with an order that was left open");
    expect(authority.output().match(/Issued certificate/g)).toHaveLength(1);
    const serials = new Set<string>();
    for (let asked = 0; asked < 20; asked += 1) serials.add((await ask(ports.tls, root)).serial);
    expect(serials.size).toBe(1);
    await second.end("SIGTERM");
    // Another life has what this one had, at once.
    const third = await site.launch({});
    await expect
      .poll(() => ask(ports.tls, root).catch(String), PATIENT)
      .toMatchObject({ status: 200 });
    expect(third.output().stdout).not.toContain("ordering a certificate");
  }, 120_000);
});
