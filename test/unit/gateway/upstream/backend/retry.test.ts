import type { Unanswered } from "../../../../../src/http/unanswered.ts";
import { describe, expect, test } from "vitest";
import {
  RetryBudget,
  RetryRule,
  type RetryQuestion,
  type RetryOptions,
} from "../../../../../src/gateway/upstream/backend/retry.ts";
import type { Sale } from "../../../../../src/gateway/upstream/upstream.ts";
import { UNSTORED_SALE as sale } from "../../../../support/sale.ts";

function asked(method: string, paid: Sale | null = null): RetryQuestion {
  return { request: { method }, sale: paid };
}

function failure(
  reason: Unanswered["reason"],
  facts: Partial<Pick<Unanswered, "sent" | "retriable" | "status">> = {},
): Unanswered {
  const said = {
    kind: "unanswered",
    status: 502,
    detail: "",
    sent: true,
    retriable: true,
  } as const;
  return { ...said, reason, ...facts };
}

function rule(options: Partial<RetryOptions> = {}): RetryRule {
  return new RetryRule({
    attempts: 2,
    methods: ["GET"],
    on: ["connect-failure", "connection-lost", "502", "503", "504"],
    ...options,
  });
}

describe("what nobody has seen yet", () => {
  test.each([
    ["a GET", asked("GET")],
    ["a POST", asked("POST")],
    ["what was paid for", asked("POST", sale)],
  ])("is tried again: %s", (_name, each) => {
    for (const reason of ["connect", "saturated", "down"] as const) {
      expect(rule().reasonFor(each, failure(reason, { sent: false }))).toBe("connect-failure");
    }
  });

  test("is not where its body is lost, or where the configuration does not say so", () => {
    const unsent = failure("connect", { sent: false });
    expect(rule().reasonFor(asked("GET"), { ...unsent, retriable: false })).toBeNull();
    expect(rule({ on: ["502"] }).reasonFor(asked("GET"), unsent)).toBeNull();
  });
});

const failures = [
  failure("broken"),
  failure("connect"),
  failure("timeout", { status: 504 }),
  failure("declined", { status: 502 }),
  failure("declined", { status: 503 }),
  failure("declined", { status: 504 }),
];

/** Why each of the failures of a GET is tried again. */
function reasons(on: RetryOptions["on"]) {
  return failures.map((each) => rule({ on }).reasonFor(asked("GET"), each));
}

describe("what a target may have seen", () => {
  test("is never tried again when it was paid for, whatever the configuration says", () => {
    const all = rule({ methods: ["GET", "POST"], attempts: 5 });
    for (const each of failures) {
      expect(all.reasonFor(asked("GET", sale), each)).toBeNull();
      expect(all.reasonFor(asked("POST", sale), each)).toBeNull();
    }
    expect(all.maySendTwice(asked("GET", sale))).toBe(false);
  });

  test("is tried again for the methods of the configuration only", () => {
    expect(failures.map((each) => rule().reasonFor(asked("GET"), each))).toEqual([
      "connection-lost",
      "connection-lost",
      "504",
      "502",
      "503",
      "504",
    ]);
    for (const each of failures) expect(rule().reasonFor(asked("POST"), each)).toBeNull();
  });

  test("is tried again for the reasons of the configuration only", () => {
    expect(reasons(["connect-failure"])).toEqual([null, null, null, null, null, null]);
    expect(reasons(["connection-lost"])).toEqual([
      "connection-lost",
      "connection-lost",
      null,
      null,
      null,
      null,
    ]);
    // A lost connection would be a 502 to the client.
    expect(reasons(["502"])).toEqual(["502", "502", null, "502", null, null]);
    expect(reasons(["503"])).toEqual([null, null, null, null, "503", null]);
    expect(reasons(["504"])).toEqual([null, null, "504", null, null, "504"]);
  });

  test.each(["malformed", "foreign-402", "too-large"] as const)("is not for %s", (reason) => {
    expect(rule().reasonFor(asked("GET"), failure(reason))).toBeNull();
  });
});

describe("answers that are kept back", () => {
  test("are those of the configuration", () => {
    expect(rule({ on: ["connect-failure"] }).declined).toBeNull();
    expect(rule({ on: ["connect-failure", "503"] }).declined).toEqual(new Set([503]));
  });
});

function spend(budget: RetryBudget, most: number): number {
  let spent = 0;
  while (spent < most && budget.isLeft) {
    budget.spend();
    spent += 1;
  }
  return spent;
}

describe("the budget", () => {
  test("gets a dying target over with, and then a fifth of the requests", () => {
    const budget = new RetryBudget(() => 0);
    expect(spend(budget, 1_000)).toBe(100);
    for (let request = 0; request < 500; request += 1) budget.earn();
    expect(spend(budget, 1_000)).toBe(100);
  });

  test("earns ten for each second, up to its reserve", () => {
    const time = { ms: 0 };
    const budget = new RetryBudget(() => time.ms);
    spend(budget, 1_000);
    time.ms = 1_000;
    expect(spend(budget, 1_000)).toBe(10);
    time.ms = 1_000_000;
    expect(spend(budget, 1_000)).toBe(100);
  });

  test("does not grow without end", () => {
    const budget = new RetryBudget(() => 0);
    for (let request = 0; request < 100_000; request += 1) budget.earn();
    expect(spend(budget, 10_000)).toBe(2_000);
  });
});
