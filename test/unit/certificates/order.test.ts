/** An order of a certificate, with an authority that says what it likes. */
import acme from "acme-client";
import { describe, expect, test } from "vitest";
import { keep, readKept, type OpenOrder } from "../../../src/certificates/kept.ts";
import { orderCertificate } from "../../../src/certificates/order.ts";
import { systemTime } from "../../../src/time/time.ts";
import { FIRST, SECOND } from "../../support/listener-tls.ts";
import { MemoryLedger } from "../../support/memory-ledger.ts";
import { MemoryStore } from "../../support/memory-store.ts";

const DIRECTORY = "https://ca.example/dir";
const OPEN: OpenOrder = { directory: DIRECTORY, url: "https://ca.example/order/1", key: FIRST.key };
const VALID = { status: "valid", url: OPEN.url };

interface Found {
  readonly status: string;
  readonly url: string;
  readonly expires?: string;
}

function order(
  cert: string,
  open: OpenOrder | undefined,
  domain = "shop.example",
  found: Found = VALID,
) {
  const asked: string[] = [];
  const real = new acme.Client({ directoryUrl: DIRECTORY, accountKey: FIRST.key });
  const client = Object.assign(real, {
    getOrder: async ({ url }: { readonly url: string }) => (asked.push(`look at ${url}`), found),
    createOrder: async () => (asked.push("order"), { ...VALID, url: "https://ca.example/order/2" }),
    getCertificate: async () => cert,
    getAuthorizations: async ({ authorizations }: { readonly authorizations: readonly string[] }) =>
      authorizations.map(
        () => (asked.push("authorization"), { status: "pending", challenges: [] }),
      ),
  });
  const createPrivateEcdsaKey = async (): Promise<Buffer> => Buffer.from(SECOND.key);
  const crypto = { ...acme.crypto, createPrivateEcdsaKey };
  const store = new MemoryLedger({ store: new MemoryStore(), time: systemTime, life: "one" })
    .certificates;
  const get = () =>
    orderCertificate(
      { directory: DIRECTORY, domain, challenge: "http-01", open },
      {
        authority: { client, crypto, dateMs: () => undefined, close: async () => undefined },
        store,
        time: systemTime,
        signal: new AbortController().signal,
        onStep: () => undefined,
      },
    );
  return { get, asked, store };
}

describe("an order", () => {
  test("that was left open is gone on with, for the key that it was made for", async () => {
    const { get, asked } = order(FIRST.cert, OPEN);
    expect(await get()).toEqual({ domain: "shop.example", ...FIRST });
    expect(asked[0]).toBe(`look at ${OPEN.url}`);
    expect(asked).not.toContain("order");
  });

  test("of another authority is let be, and a new one is kept before anything else", async () => {
    const { get, asked, store } = order(SECOND.cert, { ...OPEN, directory: "https://old.example" });
    expect(await get()).toEqual({ domain: "shop.example", ...SECOND });
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
    await expect(order(cert, OPEN, domain).get()).rejects.toThrow(said);
  });

  test("that gives a chain that no listener can serve has failed", async () => {
    const broken = "-----BEGIN CERTIFICATE-----\nbm8gY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
    await expect(order(FIRST.cert + broken, OPEN).get()).rejects.toThrow("cannot be served");
  });

  test("that was left open and has failed since counts as a failure, and leads to no new one at once", async () => {
    const failed = { ...VALID, status: "invalid", expires: "2999-01-01T00:00:00Z" };
    const { get, asked, store } = order(FIRST.cert, OPEN, "shop.example", failed);
    await keep(store, ["order", "shop.example"], OPEN);
    await expect(get()).rejects.toThrow("the order that was left open is invalid");
    expect(asked).not.toContain("order");
    // Whoever comes next asks for another one.
    expect((await readKept(store)).get("order", "shop.example")).toBeUndefined();
  });

  test("that was left open and has become too old has failed for nobody", async () => {
    const old = { ...VALID, status: "invalid", expires: "2020-01-01T00:00:00Z" };
    const { get, asked } = order(FIRST.cert, OPEN, "shop.example", old);
    await expect(get()).rejects.toThrow("the order is invalid");
    expect(asked).toContain("order");
  });

  test("leaves no challenge open that a process which was killed had left", async () => {
    const { get, store } = order(FIRST.cert, OPEN);
    await keep(store, ["challenge", "shop.example"], {
      kind: "http-01",
      domain: "shop.example",
      token: "token",
      answer: "answer",
    });
    await get();
    expect((await readKept(store)).all("challenge")).toEqual([]);
  });

  test("is proven by one authorization, however many an authority names", async () => {
    const pending = { ...VALID, status: "pending", expires: "2999-01-01T00:00:00Z" };
    const authorizations = Array.from({ length: 100 }, (_, index) => `https://ca.example/${index}`);
    const many = { ...pending, authorizations } as Found;
    const { get, asked } = order(FIRST.cert, OPEN, "shop.example", many);
    await expect(get()).rejects.toThrow("it does not offer http-01");
    expect(asked.filter((each) => each === "authorization")).toHaveLength(1);
  });
});
