import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { Payment } from "../../../src/payments/facilitator.ts";
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import type { Confirmation } from "../../../src/mechanism/mechanism.ts";
import { faultOf } from "../../support/fault-of.ts";
import type { FacilitatorReply } from "../../support/scripted-facilitator.ts";
import { exampleRequest, TRANSACTION } from "../payments/settlement/example-request.ts";
import {
  broken,
  handing,
  meshOver,
  nobody,
  refusal,
  scripted,
  settled,
  verify,
  type MeshStage,
} from "./mesh-stage.ts";
import { failed, success } from "./remote-stage.ts";
import {
  CONFIRMED,
  confirmedBy,
  EXPIRED,
  HEAD,
  NO_CHAIN,
  REVERTED,
  scriptObserver,
  SIGNER,
  UNUSED,
} from "../payments/settlement/scripted-observer.ts";

const THEIRS = `0x${"cd".repeat(32)}`;
const UNKNOWN = { kind: "unknown", code: "unexpected_settle_error" } as const;

/** Answers that leave the outcome open. */
const SILENCES: readonly (readonly [string, FacilitatorReply])[] = [
  ["breaks the connection", broken],
  ["answers 500", { status: 500 }],
  ["answers 502 with HTML", { status: 502, body: "<html>Bad Gateway</html>" }],
  ["answers nonsense", { status: 200, body: "{" }],
  ["does not know", { status: 500, body: { ...failed, errorReason: "unexpected_settle_error" } }],
];

/** A word of the chain at which the caller's time is up. */
function lastWord(word: Confirmation) {
  const caller = new AbortController();
  const say = (): Confirmation => {
    caller.abort();
    return word;
  };
  return { signal: caller.signal, say };
}

const loud = ({ log }: MeshStage) => log.filter(({ level }) => level === "error");

describe("an outcome that the facilitator leaves open, where the chain can be asked,", () => {
  test.each(SILENCES)("is what the chain shows when it %s", async (_, reply) => {
    const facilitator = await scripted(reply);
    const observer = scriptObserver(UNUSED, NO_CHAIN, UNUSED, CONFIRMED);
    const { router } = meshOver([facilitator], { observer });
    expect(await onTheWire(router).settle(exampleRequest, handing())).toEqual(success);
    expect(facilitator.calls.length).toBe(1);
    expect(observer.looks.length).toBe(4);
  });

  test.each(["facilitator", "receipt"] as const)(
    "is of the account whose transaction it names as pending (%s confirms)",
    async (confirm) => {
      const body = { ...failed, errorReason: "settlement_pending", transaction: THEIRS };
      const facilitator = await scripted({ status: 200, body });
      const observer = scriptObserver(confirmedBy(SIGNER));
      observer.senders.set(THEIRS, SIGNER);
      const { router } = meshOver([facilitator], {
        observer,
        tellsSigners: false,
        remote: { confirm },
      });
      const answer = onTheWire(router).settle(exampleRequest, handing());
      if (confirm === "facilitator") expect(await answer).toEqual(success);
      // What it names is a claim, and so is whose it is.
      else expect(await faultOf(answer)).toMatchObject({ name: "FacilitatorFault", ...UNKNOWN });
    },
  );

  test("is what the chain shows when no answer comes in time", async () => {
    const facilitator = await scripted({ raw: () => {} });
    const observer = scriptObserver(CONFIRMED);
    const { router } = meshOver([facilitator], { observer, remote: { timeoutMs: 50 } });
    expect(await onTheWire(router).settle(exampleRequest, handing())).toEqual(success);
  });

  test("is failed when two looks in a row find the same failure, and not before", async () => {
    const facilitator = await scripted(broken);
    const observer = scriptObserver(EXPIRED, NO_CHAIN, EXPIRED, UNUSED, EXPIRED, EXPIRED);
    const { router } = meshOver([facilitator], { observer });
    expect(await onTheWire(router).settle(exampleRequest, handing())).toEqual({
      ...failed,
      errorReason: "invalid_transaction_state",
      detail: "the authorization expired unused",
    });
    expect(observer.looks.length).toBe(6);
  });

  test("stays unknown while the authorization can still be used", async () => {
    const { signal, say } = lastWord(UNUSED);
    const observer = scriptObserver(REVERTED, REVERTED, REVERTED, say);
    const { router, time } = meshOver([await scripted(broken)], { observer });
    const fault = await faultOf(onTheWire(router).settle(exampleRequest, handing({ signal })));
    expect(fault).toMatchObject(UNKNOWN);
    expect(time.pauses).toEqual([250, 375, 562.5]);
  });

  test("stays unknown when the chain could not be read", async () => {
    const observer = scriptObserver(new TypeError("a bug"));
    const stage = meshOver([await scripted(broken)], { observer });
    expect(await faultOf(onTheWire(stage.router).settle(exampleRequest, handing()))).toMatchObject(
      UNKNOWN,
    );
    expect(loud(stage)).toMatchObject([{ err: { message: "a bug" }, network: "base-sepolia" }]);
  });

  test("is not told by the chain to a caller without a claim", async () => {
    const observer = scriptObserver(CONFIRMED);
    const { router } = meshOver([await scripted(broken)], { observer });
    const { signal } = handing();
    const fault = await faultOf(
      onTheWire(router).settle(exampleRequest, { signal, idempotencyKey: "key" }),
    );
    expect(fault).toMatchObject(UNKNOWN);
    expect(observer.looks).toEqual([]);
  });
});

describe("an outcome that the facilitator leaves open, where no chain can be asked,", () => {
  test.each(SILENCES)("is asked for again with the same key when it %s", async (_, reply) => {
    const facilitator = await scripted(reply);
    const { router, time } = meshOver([facilitator, await scripted(settled)]);
    const settling = onTheWire(router).settle(exampleRequest, handing({ idempotencyKey: "first" }));
    time.sleep = async (ms) => {
      time.pauses.push(ms);
      if (time.pauses.length === 3) facilitator.reply = settled;
    };
    expect(await settling).toEqual(success);
    expect(time.pauses).toEqual([1_000, 1_000, 2_000]);
    const keys = facilitator.calls.map(({ headers }) => headers["idempotency-key"]);
    expect(keys).toEqual(["first", "first", "first", "first"]);
  });

  test("is asked for a bounded number of times", async () => {
    const facilitator = await scripted(broken);
    const { router, time } = meshOver([facilitator]);
    expect(await faultOf(onTheWire(router).settle(exampleRequest, handing()))).toMatchObject(
      UNKNOWN,
    );
    expect(facilitator.calls.length).toBe(5);
    expect(time.pauses).toEqual([1_000, 1_000, 2_000, 4_000]);
  });

  test.each(["invalid_transaction_state", "insufficient_funds"])(
    "stays unknown when the repeated request is refused (%s): it may be its own success",
    async (code) => {
      const facilitator = await scripted(broken);
      const { router, time } = meshOver([facilitator]);
      time.sleep = async () => void (facilitator.reply = refusal(code));
      expect(await faultOf(onTheWire(router).settle(exampleRequest, handing()))).toMatchObject(
        UNKNOWN,
      );
      expect(facilitator.calls.length).toBe(2);
    },
  );
});

describe("a first refusal", () => {
  test.each([
    ["invalid_transaction_state", 3],
    ["insufficient_funds", 3],
    ["invalid_exact_evm_payload_signature", 1],
    ["invalid_exact_evm_payload_authorization_valid_before", 1],
  ])(
    "for %s is the last word where the chain shows nothing in a few looks",
    async (code, looks) => {
      const observer = scriptObserver(UNUSED);
      const { router } = meshOver([await scripted(refusal(code))], { observer });
      const answer = await onTheWire(router).settle(exampleRequest, handing());
      expect(answer).toMatchObject({ ...failed, errorReason: code });
      expect(observer.heads).toEqual(Array.from({ length: looks }, () => HEAD));
    },
  );

  test.each(["insufficient_funds", "invalid_exact_evm_payload_signature"])(
    "for %s counts as paid when the chain shows it",
    async (code) => {
      const observer = scriptObserver(CONFIRMED);
      const { router } = meshOver([await scripted(refusal(code))], { observer });
      expect(await onTheWire(router).settle(exampleRequest, handing())).toEqual(success);
    },
  );

  const used = refusal("invalid_transaction_state");
  const refused = { ...failed, errorReason: "invalid_transaction_state" };

  test("that may mean used counts as paid when the chain shows it", async () => {
    const observer = scriptObserver(UNUSED, CONFIRMED);
    const { router } = meshOver([await scripted(used)], { observer });
    expect(await onTheWire(router).settle(exampleRequest, handing())).toEqual(success);
  });

  test("that may mean used counts as refused for a caller without a claim", async () => {
    const observer = scriptObserver(CONFIRMED);
    const { router } = meshOver([await scripted(used)], { observer });
    expect(
      await onTheWire(router).settle(exampleRequest, { signal: handing().signal }),
    ).toMatchObject(refused);
    expect(observer.looks).toEqual([]);
  });

  test("that may mean used is believed after three looks, and where there is no chain", async () => {
    const observer = scriptObserver(UNUSED);
    const { router } = meshOver([await scripted(used)], { observer });
    expect(await onTheWire(router).settle(exampleRequest, handing())).toMatchObject(refused);
    expect(observer.looks.length).toBe(3);
    const blind = meshOver([await scripted(used)]);
    expect(await onTheWire(blind.router).settle(exampleRequest, handing())).toMatchObject(refused);
  });

  test("that may mean used is not believed while the chain cannot be asked", async () => {
    const observer = scriptObserver(NO_CHAIN);
    const { router } = meshOver([await scripted(used)], { observer });
    expect(await faultOf(onTheWire(router).settle(exampleRequest, handing()))).toMatchObject(
      UNKNOWN,
    );
  });
});

describe("a success, where receipts count,", () => {
  const remote = { confirm: "receipt" } as const;

  test("counts when the chain shows it, in the transaction that the chain names", async () => {
    const observer = scriptObserver(UNUSED, confirmedBy(SIGNER, THEIRS));
    const stage = meshOver([await scripted(settled)], { observer, remote });
    const answer = await onTheWire(stage.router).settle(exampleRequest, handing());
    expect(answer).toEqual({ ...success, transaction: THEIRS });
    expect(observer.looks).toEqual([TRANSACTION, TRANSACTION]);
    expect(loud(stage)).toEqual([]);
  });

  test("is unknown when the chain does not show it, and that is said loudly", async () => {
    const { signal, say } = lastWord(REVERTED);
    const observer = scriptObserver(UNUSED, say);
    const facilitator = await scripted(settled);
    const stage = meshOver([facilitator], { observer, remote });
    expect(
      await faultOf(onTheWire(stage.router).settle(exampleRequest, handing({ signal }))),
    ).toMatchObject(UNKNOWN);
    expect(loud(stage)).toMatchObject([
      { facilitator: facilitator.url, claimed: TRANSACTION, chain: "the transaction was reverted" },
    ]);
    expect(facilitator.calls.length).toBe(1);
  });

  test("is failed when the chain denies it for certain", async () => {
    const observer = scriptObserver(UNUSED, EXPIRED, EXPIRED);
    const stage = meshOver([await scripted(settled)], { observer, remote });
    expect(await onTheWire(stage.router).settle(exampleRequest, handing())).toMatchObject({
      ...failed,
      detail: "the authorization expired unused",
    });
    expect(loud(stage).length).toBe(1);
  });

  test("is not looked for where the facilitator's word counts", async () => {
    const observer = scriptObserver(EXPIRED);
    const { router } = meshOver([await scripted(settled)], { observer });
    expect(await onTheWire(router).settle(exampleRequest, handing())).toEqual(success);
    expect(observer.looks).toEqual([]);
  });
});

describe("a settlement that was handed over before", () => {
  test("is asked for where it was left, whatever the order, and handed to nobody else", async () => {
    const [first, second] = [await scripted(settled), await scripted(settled)];
    const handed = handing({ askedBefore: second.url, idempotencyKey: "stored" });
    expect(
      await onTheWire(meshOver([first, second]).router).settle(exampleRequest, handed),
    ).toEqual(success);
    expect([first.calls.length, handed.names]).toEqual([0, [second.url]]);
    expect(second.calls.map(({ headers }) => headers["idempotency-key"])).toEqual(["stored"]);
  });

  test("is asked for there although the circuit is open", async () => {
    const [first, second] = [await scripted({ status: 500 }), await scripted({ status: 500 })];
    const { router } = meshOver([first, second]);
    for (let count = 0; count < 3; count += 1) await faultOf(verify(router));
    first.reply = settled;
    const handed = handing({ askedBefore: first.url });
    expect(await onTheWire(router).settle(exampleRequest, handed)).toEqual(success);
  });

  test.each<[string, FacilitatorReply | "down"]>([
    ["is down", "down"],
    ["refuses it unread", { status: 429 }],
    ["refuses it", refusal("invalid_transaction_state")],
    ["refuses it as expired", refusal("invalid_exact_evm_payload_authorization_valid_before")],
    ["loses its answer", broken],
  ])("stays unknown when that facilitator %s", async (_, reply) => {
    const other = await scripted(settled);
    const asked = reply === "down" ? await nobody() : await scripted(reply);
    const { router } = meshOver([other, asked]);
    const handed = handing({ askedBefore: asked.url });
    expect(await faultOf(onTheWire(router).settle(exampleRequest, handed))).toMatchObject(UNKNOWN);
    expect(other.calls).toEqual([]);
  });

  test("is told from the chain before anybody is asked", async () => {
    const facilitator = await scripted(settled);
    const observer = scriptObserver(confirmedBy(SIGNER, THEIRS));
    const { router } = meshOver([facilitator], { observer });
    const handed = handing({ askedBefore: facilitator.url, handedOverAt: HEAD });
    const answer = await onTheWire(router).settle(exampleRequest, handed);
    expect(answer).toEqual({ ...success, transaction: THEIRS });
    expect(observer.heads).toEqual([HEAD]);
    expect(observer.standings).toBe(0);
    expect(facilitator.calls).toEqual([]);
  });

  test("is asked for once and then looked for on the chain", async () => {
    const facilitator = await scripted(refusal("invalid_transaction_state"));
    const observer = scriptObserver(UNUSED, UNUSED, EXPIRED, EXPIRED);
    const { router } = meshOver([facilitator], { observer });
    const handed = handing({ askedBefore: facilitator.url });
    expect(await onTheWire(router).settle(exampleRequest, handed)).toMatchObject(failed);
    expect([facilitator.calls.length, observer.looks.length]).toEqual([1, 4]);
  });

  test("stays unknown when its facilitator is not configured any more, and says so", async () => {
    const other = await scripted(settled);
    const stage = meshOver([other]);
    const handed = handing({ askedBefore: "https://gone.example" });
    expect(await faultOf(onTheWire(stage.router).settle(exampleRequest, handed))).toMatchObject(
      UNKNOWN,
    );
    expect(other.calls).toEqual([]);
    expect(loud(stage)).toMatchObject([
      { facilitator: "https://gone.example", msg: expect.stringContaining("not configured") },
    ]);
  });

  test("is for the operator when its facilitator is not configured any more: it tells no accounts", async () => {
    const observer = scriptObserver(UNUSED, NO_CHAIN, CONFIRMED);
    const { router } = meshOver([], { observer });
    const handed = handing({ askedBefore: "https://gone.example", handedOverAt: HEAD });
    const fault = await faultOf(onTheWire(router).settle(exampleRequest, handed));
    expect(fault).toMatchObject({ ...UNKNOWN, transaction: TRANSACTION });
    const delivering = meshOver([], { observer, foreign: "deliver" });
    expect(await onTheWire(delivering.router).settle(exampleRequest, handed)).toEqual(success);
  });

  test.each(["hold", "deliver"] as const)(
    "is for the operator where nobody knows where the chain stood (%s)",
    async (foreign) => {
      const observer = scriptObserver(CONFIRMED);
      const facilitator = await scripted(settled);
      const { router } = meshOver([facilitator], { observer, foreign });
      const handed = handing({ askedBefore: facilitator.url });
      const fault = await faultOf(onTheWire(router).settle(exampleRequest, handed));
      expect(fault).toMatchObject({ ...UNKNOWN, transaction: TRANSACTION });
      expect([observer.heads, facilitator.count("/settle")]).toEqual([[null], 0]);
    },
  );

  test("is asked for elsewhere even if this process settles the network by now", async () => {
    const facilitator = await scripted(settled);
    const embedded = {
      networks: ["base-sepolia"],
      read: (request: FacilitatorRequest) => Payment.read(request),
      precheck: () => undefined,
      isRemote: () => false,
      verify: () => Promise.reject(new Error("not asked")),
      settle: () => Promise.reject(new Error("not asked")),
      supported: async () => ({ kinds: [] }),
    };
    const { router } = meshOver([facilitator], { embedded });
    const handed = handing({ askedBefore: facilitator.url });
    expect(await onTheWire(router).settle(exampleRequest, handed)).toEqual(success);
    await expect(onTheWire(router).settle(exampleRequest, handing())).rejects.toThrow("not asked");
  });
});
