/** Certificates of a real authority (Pebble), from a gateway that has none to clients that trust nobody else. */
import { describe, expect, test } from "vitest";
import { HAS_PEBBLE, startPebble } from "../../support/pebble.ts";
import { ask, askPlain, freePorts, openStage, OTHER, SHOP } from "./stage.ts";

const PATIENT = { timeout: 30_000, interval: 100 };

describe.skipIf(!HAS_PEBBLE)("certificates of an authority (pebble)", () => {
  test.each(["http-01", "tls-alpn-01"])(
    "are got by %s, and buyers trust them",
    async (challenge) => {
      const ports = await freePorts();
      await using authority = await startPebble({ httpPort: ports.http, tlsPort: ports.tls });
      await using stage = await openStage({ authority, ports, challenge, domains: [SHOP, OTHER] });
      const root = await authority.root();
      // Until there is one, no handshake is answered with anything that a client might be told to accept.
      await expect(ask(ports.tls, root)).rejects.toThrow();
      await expect
        .poll(() => ask(ports.tls, root).catch(String), PATIENT)
        .toMatchObject({ status: 200 });
      await expect
        .poll(() => ask(ports.tls, root, OTHER).catch(String), PATIENT)
        .toMatchObject({ status: 200, body: "hello" });
      const gauge = "coinslot_tls_certificate_expiry_timestamp_seconds";
      const [line = ""] = await stage.metrics(`${gauge}{file="${SHOP}"`);
      expect(Number(line.split(" ").at(-1))).toBeGreaterThan(Date.now() / 1000);
    },
  );
});
