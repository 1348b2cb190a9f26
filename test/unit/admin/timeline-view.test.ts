/** What the operator's page tells of a request, and what it leaves out. */
import { describe, expect, test } from "vitest";
import { viewOfRequest, withoutUrls } from "../../../src/admin/timeline-view.ts";
import { Tokens } from "../../../src/admin/payment-view.ts";
import type { TimelineHead, TimelineRecord } from "../../../src/telemetry/timeline.ts";
import { configOf } from "../app/config-of.ts";

const CONFIG = `facilitator: { listen: 127.0.0.1:4021, remote: [{ url: https://f.example.com }] }`;
const KEYED = "https://user:hunter2@rpc.example.com:8443/v2/hunter2?key=hunter2#hunter2";

const head: TimelineHead = {
  method: "GET",
  path: "/weather",
  route: "GET /weather",
  connection: null,
  target: "/weather?hunter2",
  presented: null,
  asked: [],
};

function viewOf(record: TimelineRecord, shown = head) {
  const known = { record, question: null, payment: null };
  return viewOfRequest(known, shown, { tokens: new Tokens(configOf(CONFIG)), nowMs: 0 });
}

describe("a request on the operator's page", () => {
  test.each([
    ["/weather", ""],
    ["/weather?city=Oslo&days=3", "?city=Oslo&days=3"],
    ["/weather?q=S%C3%B8r+Tr%C3%B8ndelag", "?q=Sør Trøndelag"],
    [
      "/weather?city=Oslo&api_key=hunter2&Authorization=hunter2",
      "?city=Oslo&api_key=…&Authorization=…",
    ],
    [`/weather?note=${"hunter2".repeat(9)}`, "?note=…"],
    ["/weather?hunter2&=hunter2", "?…&…"],
    [`/read?url=${encodeURIComponent("https://a:hunter2@b.c/hunter2")}`, "?url=https://b.c"],
    ["/weather?a=%E2%80%AEb%00&c=%zz", "?a=\ufffdb\ufffd&c=%zz"],
    [`/weather?${"a=1&".repeat(20)}`, `?${"a=1&".repeat(12)}…`],
  ])("shows what was asked for, without what may be secret: %s", (target, shown) => {
    const record = { id: "a-1", atMs: 0, head, steps: [], key: null, error: null, end: null };
    expect(viewOf(record, { ...head, target }).query).toBe(shown);
  });

  test("tells what the backend answered before it was paid, and nothing of that elsewhere", () => {
    const step = (name: "work" | "delivery", note: string) =>
      ({ name, atMs: 1, ms: 1, isGood: name === "delivery", note }) as const;
    const end = { status: 404, outcome: "unsold", ms: 3 } as const;
    const record = { id: "a-1", atMs: 0, head, key: null, error: null, end };
    const steps = [step("work", "the backend answered 404")];
    const names = ["402", "payment", "verification", "work", "settlement", "delivery"];
    const { stages, outcome } = viewOf({ ...record, steps });
    expect(stages.map(({ name }) => name)).toEqual(names);
    expect(stages[3]).toMatchObject({ state: "bad", note: "the backend answered 404" });
    expect(outcome).toBe("nothing to sell, not charged");
    const plain = viewOf({ ...record, steps: [step("delivery", "the backend answered 200")] });
    expect(plain.stages.map(({ name }) => name)).toEqual(names.filter((name) => name !== "work"));
  });

  test("names of an endpoint that somebody complains of no more than the host", () => {
    const note = `HTTP 500 from <${KEYED}>, "${KEYED}" and ${KEYED}`;
    const step = { name: "verification", atMs: 1, ms: 1, isGood: false, note } as const;
    const record: TimelineRecord = {
      id: "a-1",
      atMs: 0,
      head,
      steps: [step],
      key: null,
      error: `unexpected_verify_error: ${KEYED} did not answer`,
      end: { status: 500, outcome: "unavailable", ms: 3 },
    };
    const view = viewOf(record);
    expect(view.error).toBe("unexpected_verify_error: https://rpc.example.com:8443 did not answer");
    expect(view.stages[2]?.note).toContain("https://rpc.example.com:8443");
    expect(JSON.stringify(view)).not.toContain("hunter2");
  });

  test.each([
    ["the payer holds 0 of 10000 atomic units", "the payer holds 0 of 10000 atomic units"],
    ["GET /weather: not there (a/b?c)", "GET /weather: not there (a/b?c)"],
    ["wss://rpc.example.com/key.", "wss://rpc.example.com"],
  ])("leaves other text as it is: %s", (text, shown) => {
    expect(withoutUrls(text)).toBe(shown);
  });
});
