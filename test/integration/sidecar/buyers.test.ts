/** What buyers have of coinslot itself where the data path is another proxy's: who they are, and what became of it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RECEIPT_HEADERS } from "../../../src/x402/header.ts";
import { SESSION_HEADER } from "../../../src/x402/session.ts";
import { SIGN_IN_HEADER, SIGN_IN_PATH } from "../../../src/x402/sign-in.ts";
import { headerJson, present, PURSE, richBuyer, sign, VERSIONS } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { hasProxy, OWN_PROXIES, type OwnProxyName } from "../../support/own-proxy.ts";
import { challengeOf, showSignIn, signChallenge } from "../../support/sign-in.ts";
import { openShop, PUBLIC_URL, type Shop } from "./stage.ts";

const SETTINGS: Readonly<Record<OwnProxyName, string>> = {
  nginx: "delivery: reported, reportWithin: 30s",
  haproxy: "delivery: repeatable",
  caddy: "delivery: repeatable",
};
const PRICE = 10_000n;

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});

afterAll(() => chain.stop());

/** What `rel="status"` links to; undefined: nothing does. */
function statusLink(headers: Headers): string | undefined {
  return /<([^>]+)>; rel="status"/.exec(headers.get("link") ?? "")?.[1];
}

for (const proxy of OWN_PROXIES) {
  const isThere = hasProxy(proxy);
  describe.skipIf(!isThere)(`behind ${proxy} (without it: apt-get install ${proxy})`, () => {
    let shop: Shop;

    beforeAll(async () => {
      const more = "support: help@shop.example";
      shop = await openShop({ chain, proxy, settings: SETTINGS[proxy], more });
    });

    afterAll(() => shop[Symbol.asyncDispose]());

    const seen = (): string[] => shop.backend.flatMap(({ headers }) => Object.keys(headers));

    it.each(VERSIONS)("who has paid in version %i is told where it stands", async (version) => {
      shop.answers = { status: 200, headers: { Link: '</style.css>; rel="preload"' } };
      const buyer = await richBuyer(chain);
      const header = await sign(buyer, `${shop.url}/weather`, { version });
      const paid = await present(`${shop.url}/weather`, header, {}, version);
      expect(paid.status).toBe(200);
      const inReceipt = Object(headerJson(paid.headers, RECEIPT_HEADERS[2])).extensions;
      const link = statusLink(paid.headers);
      const told = link ?? Object(inReceipt?.["payment-status"]?.info).url;
      // Caddy's recipe tells the receipt alone, and that of version 1 has no place for it.
      if (proxy === "caddy" && version === 1) return;
      if (proxy !== "caddy") {
        expect(paid.headers.get("link")).toContain('</style.css>; rel="preload"');
        expect(paid.headers.get("link")).toContain('rel="help"');
      }
      expect(told).toMatch(new RegExp(`^${PUBLIC_URL}/.well-known/x402/payments/`));
      const path = String(told).slice(PUBLIC_URL.length);
      const before = shop.backend.length;
      const status = await fetch(shop.url + path);
      expect([status.status, status.headers.get("cache-control")]).toEqual([200, "no-store"]);
      expect(await status.json()).toMatchObject({ state: "delivered", amount: String(PRICE) });
      expect((await fetch(`${shop.url}${path}x`)).status).toBe(404);
      expect((await fetch(shop.url + path, { method: "POST" })).status).toBe(405);
      expect(shop.backend.length).toBe(before);
    });

    it("who has paid gets it by his signature, once for each, and nobody else does", async () => {
      const url = `${shop.url}/reports/signed`;
      const [buyer, other] = [await richBuyer(chain), await richBuyer(chain)];
      // With a report the payment is good for what failed; without one for the same again.
      shop.answers = { status: proxy === "nginx" ? 503 : 200, headers: {} };
      const paid = await present(url, await sign(buyer, url, { version: 2 }), {}, 2);
      expect(paid.status).toBe(shop.answers.status);
      shop.answers = { status: 200, headers: {} };
      shop.backend.length = 0;
      const stranger = await showSignIn(
        url,
        await signChallenge(await challengeOf(url), other.account),
      );
      expect([stranger.status, stranger.said.error]).toEqual([
        402,
        expect.stringContaining("invalid_siwx_no_purchase"),
      ]);
      const signed = await signChallenge(await challengeOf(url), buyer.account);
      const elsewhere = await showSignIn(`${shop.url}/reports/other`, signed);
      expect(elsewhere.status).toBe(402);
      expect(shop.backend).toEqual([]);
      const got = await showSignIn(url, signed);
      expect(got.status).toBe(200);
      expect(got.said.receipt).toMatchObject({ success: true, payer: buyer.address });
      expect(shop.backend.map(({ headers }) => headers["x-402-payer"])).toEqual([buyer.address]);
      expect((await showSignIn(url, signed)).status).toBe(402);
      expect(seen()).not.toContain(SIGN_IN_HEADER.toLowerCase());
      expect(PURSE - (await chain.balanceOf(buyer.address))).toBe(25n * PRICE);
      expect(await chain.balanceOf(other.address)).toBe(PURSE);
    });

    it("there is a challenge for all, and no session, which the backend would see", async () => {
      const buyer = await richBuyer(chain);
      const place = shop.url + SIGN_IN_PATH;
      const asked = await fetch(place);
      expect(asked.status).toBe(200);
      const challenge = Object(await asked.json());
      expect(challenge.info).toMatchObject({ uri: PUBLIC_URL });
      const header = await signChallenge(challenge, buyer.account);
      const posted = await fetch(place, { method: "POST", headers: { [SIGN_IN_HEADER]: header } });
      expect([posted.status, posted.headers.get("set-cookie")]).toEqual([405, null]);
      const shown = await fetch(`${shop.url}/weather`, { headers: { [SESSION_HEADER]: "a.b" } });
      expect(headerJson(shown.headers, "PAYMENT-REQUIRED").error).not.toContain("session");
      expect((await fetch(`${shop.url}/.x402/balance`)).status).toBe(404);
    });
  });
}
