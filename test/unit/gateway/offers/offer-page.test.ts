/** Who is shown a page in place of JSON, and when a page is written and compressed. */
import type { IncomingHttpHeaders } from "node:http";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { describe, expect, it, test } from "vitest";
import { OfferPage, PLAIN_PAGES, wantsPage } from "../../../../src/gateway/offers/offer-page.ts";
import { Offers, type FeePayers } from "../../../../src/payments/sale/offers.ts";
import { solanaRequirements } from "../../payments/sale/solana-payment.ts";
import { arriving } from "../arriving.ts";

function asks(headers: IncomingHttpHeaders, method = "GET"): boolean {
  const rawHeaders = Object.entries(headers).flatMap(([name, value]) => [name, String(value)]);
  const request = arriving({ rawHeaders, peer: "127.0.0.1" });
  request.method = method;
  Object.assign(request.headers, headers);
  return wantsPage(request);
}

const CHROME =
  "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

describe("a page is for", () => {
  test.each([
    ["Chrome", CHROME],
    ["Firefox", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
    ["Lynx", "text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01"],
    ["who asks for HTML alone", "text/html"],
    ["who would rather have HTML", "application/json;q=0.5, text/html;q=0.6"],
  ])("%s", (_, accept) => {
    expect(asks({ accept })).toBe(true);
    expect(asks({ accept }, "HEAD")).toBe(true);
  });

  it("a navigation of a browser that says so", () => {
    expect(asks({ accept: CHROME, "sec-fetch-mode": "navigate" })).toBe(true);
  });
});

describe("JSON is for", () => {
  test.each([
    ["curl, Python and node", "*/*"],
    ["axios", "application/json, text/plain, */*"],
    ["who likes both the same", "text/html, application/json"],
    ["who takes anything the same", "text/html, */*"],
    ["who would rather have JSON", "text/html;q=0.9, application/json"],
    ["who wants no HTML", "text/html;q=0, application/json;q=0.1"],
    ["Java's own client", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"],
    ["another type of a similar name", "text/html+x"],
  ])("%s", (_, accept) => {
    expect(asks({ accept })).toBe(false);
  });

  it("who says nothing, a script of a page, another method, and an upgrade", () => {
    expect(asks({})).toBe(false);
    expect(asks({ accept: CHROME, "sec-fetch-mode": "cors" })).toBe(false);
    expect(asks({ accept: CHROME }, "POST")).toBe(false);
    expect(asks({ accept: CHROME, upgrade: "websocket" })).toBe(false);
  });
});

const BODY = `<p>${"Weather. ".repeat(50)}`;

describe("a page", () => {
  it("is written once, and again only when something else is asked for", () => {
    let feePayer: string | undefined = "first";
    let revision = 0;
    const feePayers: FeePayers = {
      get revision() {
        return revision;
      },
      offered: () => feePayer,
      isKnown: () => true,
    };
    const { resource: _url, extra: _extra, ...offer } = solanaRequirements();
    const written: unknown[] = [];
    const page = new OfferPage(new Offers([offer], feePayers), ([offered]) => {
      written.push(offered?.extra?.["feePayer"]);
      return { lines: ["X-Page", "1"], body: BODY };
    });
    for (const time of [1, 2]) {
      expect(page.answer(["X-Cors", "1"], undefined), `time ${time}`).toEqual({
        status: 402,
        lines: ["X-Cors", "1", "X-Page", "1"],
        body: BODY,
        type: "text/html; charset=utf-8",
      });
    }
    feePayer = "second";
    revision += 1;
    page.answer([], undefined);
    expect(written).toEqual(["first", "second"]);
  });

  it("is compressed as its reader likes it, once for all of them", () => {
    const page = new OfferPage(new Offers([]), () => ({ lines: [], body: BODY }));
    const unpacked = { br: brotliDecompressSync, gzip: gunzipSync } as const;
    for (const [accepted, coding] of [
      ["gzip, deflate, br, zstd", "br"],
      ["gzip, deflate", "gzip"],
    ] as const) {
      const { bytes = new Uint8Array(), lines } = page.answer([], accepted);
      expect(lines).toEqual(["Content-Encoding", coding]);
      expect(bytes.length).toBeLessThan(BODY.length);
      expect(unpacked[coding](bytes).toString()).toBe(BODY);
      expect(page.answer([], accepted).bytes).toBe(bytes);
    }
    expect(page.answer([], "identity").bytes).toBeUndefined();
  });

  it("of one price of many is compressed only once it has been asked for often", () => {
    const page = new OfferPage(new Offers([]), () => ({ lines: [], body: BODY }), PLAIN_PAGES);
    for (let asked = 1; asked <= PLAIN_PAGES; asked += 1) {
      const { lines, bytes } = page.answer([], "gzip");
      expect([lines, bytes]).toEqual([[], undefined]);
    }
    expect(page.answer([], "gzip").lines).toEqual(["Content-Encoding", "gzip"]);
  });
});
