import { describe, expect, test } from "vitest";
import { paymentPage, requestItem, requestsPage } from "../../../src/web/requests-page.ts";
import { STAGES, type RequestView } from "../../../src/web/requests-view.ts";

const HOSTILE = `</pre></script><script>alert(1)</script><img src=x onerror="alert(1)">'"&\u2028`;

const PAYER = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const ALL = { find: "", needsMe: false };

const request: RequestView = {
  id: "abc-1",
  at: "2026-08-01T12:00:00.123Z",
  title: "GET /weather",
  query: "?city=Oslo",
  amount: "0.01 USDC on base",
  payer: PAYER,
  isPayerKnown: true,
  needsOperator: false,
  outcome: "paid and delivered",
  tone: "good",
  status: 200,
  ms: 1234.5,
  stages: STAGES.map((name) => ({ name, state: "good", ms: 4.25, note: "done" })),
  error: null,
  advice: "paid and delivered.",
  payload: [{ label: "nonce", text: "0x01" }],
  ledger: [{ label: "payment", text: "key", href: "?show=key" }],
};

/** What would run or load something. */
function dangers(page: string): readonly string[] {
  const body = page.slice(page.indexOf("<body>"));
  const markup = body.replace(/<script>(?!alert)[\s\S]*?<\/script>/, "");
  return markup.match(/<(?:script|img|iframe|svg|style)\b|\son\w+="|javascript:/gi) ?? [];
}

describe("the page of requests", () => {
  test("shows when, what, how it ended, each stage with its time, and what to do", () => {
    const page = requestsPage([request], 7, ALL);
    for (const text of [
      "2026-08-01 12:00:00.123",
      "GET /weather",
      "paid and delivered (200)",
      "1.23 s",
      "<b>settlement</b>",
      "4.3 ms",
      "Paid and delivered.",
      'data-version="7"',
      '<a href="?show=key"',
    ]) {
      expect(page).toContain(text);
    }
  });

  test("says so where there was no request", () => {
    const paused = requestsPage([], 0, ALL, ["all: paused by me: <b>"]);
    expect(paused).toContain('<p class="filter">Not sold now: all: paused by me: &lt;b&gt;</p>');
    expect(requestsPage([], 0, ALL)).not.toContain("Not sold now");
    expect(requestsPage([], 0, ALL)).toContain("No request to a priced route yet.");
    expect(requestsPage([], 0, { ...ALL, needsMe: true })).toContain("Nothing here fits that");
  });

  test("shows in the row what was paid, by whom, for which query, and that it needs the operator", () => {
    const row = requestItem({ ...request, needsOperator: true }).toString();
    expect(row).toContain(`0.01 USDC on base from <a href="?find=${PAYER}" title="${PAYER}">`);
    expect(row).toContain(">0x2096…287C<");
    expect(row).toContain(">?city=Oslo<");
    expect(row).toContain(">Needs you<");
    expect(requestItem(request).toString()).not.toContain("Needs you");
  });

  test("says what it shows a part of, and has that asked for again", () => {
    const page = requestsPage([request], 0, { find: '"/a b', needsMe: true });
    expect(page).toContain("Only what needs you, with");
    expect(page).toContain('value="&quot;/a b"');
    expect(page).toContain('data-query="find=%22%2Fa+b&amp;needs=me"');
    expect(page).toContain('value="me" checked');
    expect(requestsPage([request], 7, ALL)).toContain('data-query=""');
  });

  test("is not broken out of by any text of a request, a payment or a backend", () => {
    const fact = { label: HOSTILE, text: HOSTILE };
    const stage = { name: "402", state: "bad", ms: 1, note: HOSTILE } as const;
    const hostile: RequestView = {
      ...request,
      id: HOSTILE,
      title: HOSTILE,
      query: HOSTILE,
      amount: HOSTILE,
      payer: HOSTILE,
      outcome: HOSTILE,
      error: HOSTILE,
      advice: HOSTILE,
      stages: [stage],
      payload: [fact, { ...fact, href: "javascript:alert(1)" }],
      ledger: [fact],
    };
    const details = {
      key: HOSTILE,
      state: HOSTILE,
      advice: HOSTILE,
      facts: [fact],
      history: [{ at: HOSTILE, state: HOSTILE, note: HOSTILE, by: HOSTILE }],
    };
    expect(dangers(requestsPage([hostile], 0, { find: HOSTILE, needsMe: true }))).toEqual([]);
    expect(dangers(requestItem({ ...hostile, isPayerKnown: false }).toString())).toEqual([]);
    expect(dangers(`<body>${requestItem(hostile).toString()}`)).toEqual([]);
    expect(dangers(paymentPage(details))).toEqual([]);
  });

  test("says that there is no such payment", () => {
    expect(paymentPage(undefined)).toContain("No payment has this key, transaction or nonce.");
  });
});
