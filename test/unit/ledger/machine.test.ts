/** What holds for a payment whatever is done with it, in any order, by several lives. */
import { digestedTarget } from "../../../src/ledger/stored-target.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  LedgerConflict,
  MAX_DELIVERY_ATTEMPTS,
  MAX_RENEWALS,
  MAX_REPLAYS,
  REPLAY_MS,
  type PaymentState,
  type Transition,
} from "../../../src/ledger/ledger.ts";
import * as machine from "../../../src/ledger/machine.ts";
import type { Moment, Step } from "../../../src/ledger/machine.ts";
import type { PaymentRow } from "../../../src/ledger/payment-row.ts";
import { examplePayment } from "./example-payment.ts";
import {
  ANSWER,
  ASKED,
  BINDING,
  CALLER,
  CLAIMANT,
  FACILITATOR,
  FAILURE,
  forged,
  OTHER_BINDING,
  OTHER_TARGET,
  repriced,
  SETTLEMENT,
  TARGET,
  termsOf,
} from "./ledger-driver.ts";

type Row = PaymentRow | undefined;

interface Command {
  readonly name: string;
  readonly life: string;
  readonly run: (row: Row, moment: Moment) => Step<unknown>;
}

const { request } = examplePayment(1);
const OTHER_SETTLEMENT = { ...SETTLEMENT, transaction: "0xbb" };
const life = fc.constantFrom("one", "one", "one", "one", "two");

function asks(transition: Transition): Command["run"] {
  return (row, moment) => machine.apply(row, transition, moment);
}

const COMMANDS: Readonly<Record<string, Command["run"]>> = {
  claim: asks({ kind: "claim", terms: termsOf({ request }) }),
  claimElsewhere: asks({ kind: "claim", terms: termsOf({ request }, { binding: OTHER_BINDING }) }),
  claimTarget: asks({ kind: "claim", terms: termsOf({ request }, { target: OTHER_TARGET }) }),
  claimForged: asks({ kind: "claim", terms: termsOf({ request: forged(request) }) }),
  begin: asks({ kind: "begin", request, caller: CALLER }),
  beginOther: asks({ kind: "begin", request, caller: "another key" }),
  beginBare: asks({ kind: "begin", request: repriced(request), caller: undefined }),
  beginForged: asks({ kind: "begin", request: forged(request), caller: undefined }),
  outcome: (row) => ({ outcome: machine.outcome(row) }),
  handOver: asks({ kind: "handedOver", facilitator: FACILITATOR }),
  handOverSeen: asks({ kind: "handedOver", facilitator: FACILITATOR, head: 7 }),
  lookAgain: (row, moment) =>
    machine.apply(row, { kind: "lookedAgain", nextMs: moment.nowMs }, moment),
  decide: asks({ kind: "lookedAgain", nextMs: null }),
  handOverAgain: asks({ kind: "handedOver", facilitator: "https://other.example.com" }),
  sign: (row, moment) => machine.sign(row, "0x01", moment),
  settle: asks({ kind: "settled", settlement: SETTLEMENT }),
  settleOther: asks({ kind: "settled", settlement: OTHER_SETTLEMENT }),
  fail: asks({ kind: "failed", failure: FAILURE }),
  withdraw: asks({ kind: "withdrawn" }),
  release: asks({ kind: "released" }),
  abandon: asks({ kind: "abandoned" }),
  offer: asks({ kind: "offer" }),
  take: (row, moment) => machine.apply(row, { kind: "take", version: row?.version ?? 0 }, moment),
  deliver: asks({ kind: "delivering" }),
  deliverOthers: asks({
    kind: "delivering",
    sale: { idempotencyKey: "another", target: TARGET, claimant: CLAIMANT },
  }),
  delivered: asks({ kind: "delivered" }),
  deliveredKept: asks({ kind: "delivered", sold: { ...ASKED, response: ANSWER } }),
  unsent: asks({ kind: "undelivered", broken: { sent: false, served: null } }),
  broken: asks({ kind: "undelivered", broken: { sent: true, served: null } }),
  cutOff: asks({ kind: "undelivered", broken: { sent: true, served: TARGET } }),
  replay: asks({ kind: "replay", asked: ASKED }),
  reap: (row, moment) => machine.reap(row, (other) => other !== moment.life),
  leave: asks({ kind: "leave" }),
  collected: asks({ kind: "collected" }),
  unread: asks({ kind: "unread" }),
  claimStranger: asks({
    kind: "claim",
    terms: termsOf({ request }, { claimant: "another client" }),
  }),
  claimPayer: asks({
    kind: "claim",
    terms: termsOf({ request }, { claimant: "x", proof: "valid" }),
  }),
  deliverPayer: asks({
    kind: "delivering",
    sale: { idempotencyKey: CALLER, target: TARGET, claimant: "x", proof: "valid" },
  }),
};

/** Most of it is the way of a payment that goes well, or no random walk would come far. */
const names = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(...Object.keys(COMMANDS)) },
  {
    weight: 3,
    arbitrary: fc.constantFrom("claim", "sign", "settle", "deliver", "deliver", "broken", "replay"),
  },
  { weight: 1, arbitrary: fc.constantFrom("delivered", "deliveredKept", "deliveredKept") },
);
const commands: fc.Arbitrary<Command> = fc
  .record({ name: names, life })
  .map(({ name, life: by }) => ({
    name,
    life: by,
    run: COMMANDS[name] ?? asks({ kind: "leave" }),
  }));

const sequences = fc.array(commands, { minLength: 1, maxLength: 60, size: "max" });

interface Move {
  readonly name: string;
  readonly before: Row;
  readonly outcome: unknown;
  /** The row as it is then. */
  readonly after: Row;
  readonly moment: Moment;
}

/** Runs commands one after the other, some time apart, and tells each that was not refused. */
function walk(sequence: readonly Command[]): readonly Move[] {
  const moves: Move[] = [];
  let row: Row;
  for (const [index, { name, life: by, run }] of sequence.entries()) {
    const moment = { life: by, nowMs: 1_700_000_000_000 + index * 60_000 };
    const before = row;
    try {
      const { next, outcome } = run(before, moment);
      if (next !== undefined) row = next ?? undefined;
      moves.push({ name, before, outcome, after: row, moment });
    } catch (error) {
      if (!(error instanceof LedgerConflict)) throw error;
    }
  }
  return moves;
}

const PAID: ReadonlySet<PaymentState | undefined> = new Set(["SETTLED", "DELIVERING", "DELIVERED"]);

function kindOf(outcome: unknown): unknown {
  return typeof outcome === "object" && outcome !== null && "kind" in outcome ? outcome.kind : null;
}

/** Checks every move of random sequences of commands. */
function always(check: (move: Move, moves: readonly Move[]) => void): void {
  const property = fc.property(sequences, (sequence) => {
    const moves = walk(sequence);
    for (const move of moves) check(move, moves);
  });
  fc.assert(property, { numRuns: 1000 });
}

describe("a payment, whatever is done with it", () => {
  it("is never unpaid again once it is paid, nor paid by another transaction", () => {
    always(({ before, after }) => {
      if (!PAID.has(before?.state)) return;
      expect(PAID.has(after?.state)).toBe(true);
      expect(after?.settledTransaction).toBe(before?.settledTransaction);
    });
  });

  it("is never forgotten once bytes of ours or a facilitator may have moved its money", () => {
    always(({ name, before, after }) => {
      if (before?.state !== "SIGNED") return;
      const isDrop = name === "release" || name === "abandon";
      const isCertain = isDrop && before.submission === null;
      if (!isCertain) expect(after).toBeDefined();
    });
  });

  it("is delivered at most so many times, each attempt from SETTLED and counted", () => {
    always(({ name, before, after, moment }) => {
      expect(after?.attempts ?? 0).toBeLessThanOrEqual(MAX_DELIVERY_ATTEMPTS);
      expect(after?.renewals ?? 0).toBeLessThanOrEqual(MAX_RENEWALS);
      if (after?.state !== "DELIVERING" || before?.state === "DELIVERING") return;
      expect(before?.state).toBe("SETTLED");
      const used = before?.attempts ?? 0;
      const isRenewed = used === MAX_DELIVERY_ATTEMPTS;
      expect(after.attempts).toBe(isRenewed ? 1 : used + 1);
      if (isRenewed) expect(name).toBe("deliverPayer");
      expect(after.claimedBy).toBe(moment.life);
    });
  });

  it("is its request's until that has left: no other life goes on with it or delivers it", () => {
    always(({ name, before, after, outcome, moment }) => {
      if (before === undefined || before.isLeft || before.holder === moment.life) return;
      // Its request was told that it failed; others may look whether that is so.
      if (name.startsWith("claim") && before.state !== "FAILED") {
        expect(["unresolved", "settled"]).not.toContain(kindOf(outcome));
      }
      if (name.startsWith("deliver") && before.state === "SETTLED") expect(after).toBe(before);
    });
  });

  it("gives its goods to the client that claimed it, and to its payer", () => {
    always(({ name, before, after, outcome }) => {
      if (name !== "claimStranger" || before === undefined) return;
      // A refusal that is doubted is looked into for whoever shows it; what comes of it is delivered to him only.
      if (before.claimant === "another client" || before.state === "FAILED") return;
      const goods = ["unresolved", "settled", "sold"];
      expect(goods).not.toContain(kindOf(outcome));
      expect(after).toBe(before);
    });
  });

  it("is left only while it is in work, or delivered to nobody", () => {
    always(({ after }) => {
      if (after?.isLeft !== true) return;
      expect(after.state).not.toBe("FAILED");
      expect(after.binding).not.toBeNull();
    });
  });

  it("is owed once more, where it was had, only as it is given again or by who has sent it", () => {
    always(({ name, before, after, moment }) => {
      if (before?.state !== "DELIVERED" || before.isLeft || after?.isLeft !== true) return;
      expect(["replay", "unread"]).toContain(name);
      expect(after.holder).toBe(moment.life);
    });
  });

  it("is sold by the life that delivers it", () => {
    always(({ before, after, moment }) => {
      if (after?.state !== "DELIVERED" || before?.state === "DELIVERED") return;
      expect(before).toMatchObject({ state: "DELIVERING", claimedBy: moment.life });
    });
  });

  it("stays delivered", () => {
    always(({ before, after }) => {
      if (before?.state === "DELIVERED") expect(after?.state).toBe("DELIVERED");
    });
  });

  it("has a version that grows by one with each change, and no change without it", () => {
    always(({ before, after }) => {
      if (before === undefined || after === undefined || after === before) return;
      expect(after.version).toBe(before.version + 1);
    });
  });

  it("is granted as a new claim to one caller, until it is dropped or has failed", () => {
    always(({ name, before, outcome }) => {
      if (kindOf(outcome) !== "granted" || name.startsWith("claim")) return;
      const fresh = before === undefined || before.state === "FAILED";
      const own = before?.idempotencyKey === CALLER && name === "begin";
      const other = before?.idempotencyKey === "another key" && name === "beginOther";
      expect(fresh || own || other).toBe(true);
    });
    always(({ name, before, outcome }) => {
      if (name.startsWith("claim") && kindOf(outcome) === "granted") expect(before).toBeUndefined();
    });
  });

  it("is signed by the life that claimed it, and never again beside bytes that may be sent", () => {
    always(({ name, before, after, moment }) => {
      if (name !== "sign") return;
      expect(before?.submission).toBeNull();
      if (before?.state === "CLAIMED") expect(before.claimedBy).toBe(moment.life);
      else expect(before?.facilitator).not.toBeNull();
      expect(after).toMatchObject({ state: "SIGNED", submission: "0x01", offered: false });
    });
    always(({ before, after }) => {
      if (before?.state !== "FAILED" || before.submission === null) return;
      expect(["FAILED", "SETTLED"]).toContain(after?.state);
      expect(after?.submission).toBe(before.submission);
    });
  });

  it("gives nothing away to who does not have its signature", () => {
    always(({ name, before, outcome, after }) => {
      if (name !== "claimForged" || before === undefined) return;
      if (JSON.parse(before.request).paymentPayload.payload.signature.startsWith("0xcd")) return;
      expect(outcome).toEqual({ kind: "forged" });
      expect(after).toBe(before);
    });
  });

  it("has a row for good once a transaction has shown it to everybody", () => {
    always(({ before, after }) => {
      if (before?.leftBy === "0x01") expect(after?.leftBy).toBe("0x01");
    });
  });

  it("is sold for one binding, and to one target once its answer had begun", () => {
    always(({ name, before, outcome }) => {
      const kind = kindOf(outcome);
      if (!name.startsWith("claim") || (kind !== "settled" && kind !== "sold")) return;
      expect(before?.binding).toBe(name === "claimElsewhere" ? OTHER_BINDING : BINDING);
      const asked = name === "claimTarget" ? OTHER_TARGET : TARGET;
      expect([null, digestedTarget(asked)]).toContain(before?.servedTarget);
    });
  });

  it("has its kept answer given at most so many times, within its time", () => {
    always(({ name, outcome, before, after, moment }, moves) => {
      expect(after?.replays ?? 0).toBeLessThanOrEqual(MAX_REPLAYS);
      if (name !== "replay" || outcome !== true) return;
      expect(before?.state).toBe("DELIVERED");
      const sold = moves.find((each) => each.after?.state === "DELIVERED");
      expect(moment.nowMs - (sold?.moment.nowMs ?? 0)).toBeLessThan(REPLAY_MS);
    });
  });

  it("waits to be signed only as a claim, and is handed over only by who claimed it", () => {
    always(({ name, before, after, moment }) => {
      if (after?.offered === true) expect(after.state).toBe("CLAIMED");
      if (!name.startsWith("handOver") || after === before) return;
      expect(before?.idempotencyKey).not.toBeNull();
      if (before?.state === "CLAIMED") expect(before.claimedBy).toBe(moment.life);
    });
  });

  it("is found in every state by these sequences", () => {
    const seen = new Set<string>();
    const property = fc.property(sequences, (sequence) => {
      for (const { after } of walk(sequence)) seen.add(after?.state ?? "none");
    });
    fc.assert(property, { numRuns: 500 });
    expect([...seen].toSorted()).toEqual(
      ["CLAIMED", "DELIVERED", "DELIVERING", "FAILED", "SETTLED", "SIGNED", "none"].toSorted(),
    );
  });
});
