/** An order of a certificate, with an authority that says what it likes. */
import acme from "acme-client";
import { describe, expect, test } from "vitest";
import type { OpenOrder } from "../../../src/certificates/kept.ts";
import { orderCertificate } from "../../../src/certificates/order.ts";
import { systemTime } from "../../../src/time/time.ts";
import { FIRST, SECOND } from "../../support/listener-tls.ts";
import { MemoryLedger } from "../../support/memory-ledger.ts";
import { MemoryStore } from "../../support/memory-store.ts";

const DIRECTORY = "https://ca.example/dir";
const OPEN: OpenOrder = { directory: DIRECTORY, url: "https://ca.example/order/1", key: FIRST.key };
const VALID = { status: "valid", url: OPEN.url };

function order(cert: string, open: OpenOrder | undefined, domain = "shop.example") {
  const asked: string[] = [];
  const real = new acme.Client({ directoryUrl: DIRECTORY, accountKey: FIRST.key });
  const client = Object.assign(real, {
    getOrder: async ({ url }: { readonly url: string }) => (asked.push(`look at ${url}`), VALID),
    createOrder: async () => (asked.push("order"), { ...VALID, url: "https://ca.example/order/2" }),
    getCertificate: async () => cert,
  });
  const createPrivateEcdsaKey = async (): Promise<Buffer> => Buffer.from(SECOND.key);
  const crypto = { ...acme.crypto, createPrivateEcdsaKey };
  const store = new MemoryLedger({ store: new MemoryStore(), time: systemTime, life: "one" })
    .certificates;
  const got = orderCertificate(
    { directory: DIRECTORY, domain, challenge: "http-01", open },
    {
      authority: { client, crypto, close: async () => undefined },
      store,
      time: systemTime,
      signal: new AbortController().signal,
      onStep: () => undefined,
    },
  );
  return { got, asked, store };
}

describe("an order", () => {
  test("that was left open is gone on with, for the key that it was made for", async () => {
    const { got, asked } = order(FIRST.cert, OPEN);
    expect(await got).toEqual({ domain: "shop.example", ...FIRST });
    expect(asked[0]).toBe(`look at ${OPEN.url}`);
    expect(asked).not.toContain("order");
  });

  test("of another authority is let be, and a new one is kept before anything else", async () => {
    const { got, asked, store } = order(SECOND.cert, { ...OPEN, directory: "https://old.example" });
    expect(await got).toEqual({ domain: "shop.example", ...SECOND });
    expect(asked[0]).toBe("order");
    const [kept] = await store.list();
    expect(JSON.parse(kept?.text ?? "")).toEqual({
      directory: DIRECTORY,
      url: "https://ca.example/order/2",
      key: SECOND.key,
    });
  });

  test.each([
    ["another key", SECOND.cert, "shop.example", "is for another key or name"],
    ["another name", FIRST.cert, "elsewhere.example", "is for another key or name"],
    ["nobody", "<html>", "shop.example", "is no certificate"],
  ])("that gives a certificate for %s has failed", async (_, cert, domain, said) => {
    await expect(order(cert, OPEN, domain).got).rejects.toThrow(said);
  });
});
