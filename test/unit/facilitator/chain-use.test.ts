/** Whose a use of an authorization is, where a facilitator elsewhere was to settle it. */
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import type { FacilitatorReply } from "../../support/scripted-facilitator.ts";
import { exampleRequest, TRANSACTION } from "../payments/settlement/example-request.ts";
import { broken, handing, meshOver, refusal, scripted, settled } from "./mesh-stage.ts";
import { success } from "./remote-stage.ts";
import {
  confirmedBy,
  scriptObserver,
  SIGNER,
  UNUSED,
} from "../payments/settlement/scripted-observer.ts";

const STRANGER = `0x${"99".repeat(20)}`;
const THEIRS = `0x${"cd".repeat(32)}`;
const USED = refusal("invalid_transaction_state");
const HELD = { kind: "unknown", transaction: THEIRS };
const supported = (told: object) => ({ status: 200, body: { kinds: [], ...told } });

/** A facilitator that settles as it is told and says of itself what it is told. */
async function telling(settle: FacilitatorReply, told: object | null) {
  const facilitator = await scripted(settle);
  const answer = told === null ? { status: 404 } : supported(told);
  facilitator.answer = ({ url }) => (url === "/supported" ? answer : facilitator.reply);
  const settles = (reply: FacilitatorReply) => void (facilitator.reply = reply);
  return Object.assign(facilitator, { settles });
}

/** What comes of a payment whose use the chain shows when the facilitator's answer is lost. */
async function lost(
  told: object | null,
  sender: string | undefined,
  later: readonly FacilitatorReply[] = [],
  foreign?: "deliver",
) {
  const facilitator = await telling(broken, told);
  const answers = later.values();
  // What it says after the first answer was lost.
  const say = () => {
    facilitator.settles(answers.next().value ?? broken);
    return confirmedBy(sender, THEIRS);
  };
  const observer = scriptObserver(say);
  const setup = { observer, tellsSigners: false, ...(foreign && { foreign }) };
  const { router } = meshOver([facilitator], setup);
  return { facilitator, router, settling: onTheWire(router).settle(exampleRequest, handing()) };
}

describe("a payment on chain whose facilitator's answer was lost", () => {
  test.each([
    ["under the network's name of version 2", { signers: { "eip155:84532": [SIGNER] } }],
    [
      "for all EVM networks",
      { signers: { "eip155:*": [STRANGER, SIGNER.toUpperCase().replace("X", "x")] } },
    ],
    ["under the network's own name", { signers: { "base-sepolia": SIGNER } }],
    ["as a mere list", { signers: [SIGNER] }],
  ])("counts where its sender is told %s", async (_, told) => {
    const { settling } = await lost(told, SIGNER);
    expect(await settling).toEqual({ ...success, transaction: THEIRS });
  });

  test.each([
    ["is another's", { signers: { "eip155:*": [SIGNER] } }, STRANGER],
    [
      "is told for another network",
      { signers: { "eip155:1": [SIGNER], "solana:*": [SIGNER] } },
      SIGNER,
    ],
    ["is not known", { signers: { "eip155:*": [SIGNER] } }, undefined],
    ["is told by nobody", {}, SIGNER],
    [
      "is told in no shape that is known",
      { signers: { "eip155:*": [7, null, { SIGNER }] } },
      SIGNER,
    ],
    ["cannot be asked for", null, SIGNER],
  ])("is held where its sender %s", async (_, told, sender) => {
    const { settling } = await lost(told, sender);
    expect(await faultOf(settling)).toMatchObject(HELD);
  });

  test("is delivered whoever sent it where that is configured", async () => {
    const { settling } = await lost({}, STRANGER, [], "deliver");
    expect(await settling).toEqual({ ...success, transaction: THEIRS });
  });
});

describe("accounts are learned from what a facilitator has settled", () => {
  test("by receipts that were read anyway", async () => {
    const facilitator = await telling(settled, {});
    const observer = scriptObserver(confirmedBy(SIGNER), confirmedBy(SIGNER, THEIRS));
    const remote = { confirm: "receipt" } as const;
    const { router } = meshOver([facilitator], { observer, remote, tellsSigners: false });
    expect(await onTheWire(router).settle(exampleRequest, handing())).toEqual(success);
    facilitator.settles(broken);
    const second = handing({ idempotencyKey: "second" });
    expect(await onTheWire(router).settle(exampleRequest, second)).toMatchObject({
      transaction: THEIRS,
    });
  });

  test("by the transactions that it named, which are read once there is a doubt", async () => {
    const facilitator = await telling(settled, {});
    const observer = scriptObserver(confirmedBy(SIGNER, THEIRS));
    observer.senders.set(TRANSACTION, SIGNER);
    const { router } = meshOver([facilitator], { observer, tellsSigners: false });
    expect(await onTheWire(router).settle(exampleRequest, handing())).toEqual(success);
    expect(observer.looks).toEqual([]);
    facilitator.settles(broken);
    const second = handing({ idempotencyKey: "second" });
    expect(await onTheWire(router).settle(exampleRequest, second)).toMatchObject({
      transaction: THEIRS,
    });
  });

  test("but not from a use in another transaction than it named", async () => {
    const facilitator = await telling(settled, {});
    const observer = scriptObserver(confirmedBy(STRANGER, THEIRS));
    const remote = { confirm: "receipt" } as const;
    const { router } = meshOver([facilitator], { observer, remote, tellsSigners: false });
    for (const idempotencyKey of ["first", "second"]) {
      const fault = await faultOf(
        onTheWire(router).settle(exampleRequest, handing({ idempotencyKey })),
      );
      expect(fault).toMatchObject(HELD);
    }
  });
});

describe("a facilitator whose refusals are final", () => {
  const told = { signers: { "eip155:84532": [SIGNER] }, finalRefusals: ["base-sepolia"] };

  test.each([[false], [true]])(
    "is believed when it refuses what the chain shows (asked before what it is: %s)",
    async (isHeard) => {
      const facilitator = await telling(USED, told);
      const observer = scriptObserver(confirmedBy(SIGNER, THEIRS));
      const { router } = meshOver([facilitator], { observer, tellsSigners: false });
      if (isHeard) await router.supported(AbortSignal.timeout(5_000));
      const answer = await onTheWire(router).settle(exampleRequest, handing());
      expect(answer).toMatchObject({ success: false, errorReason: "invalid_transaction_state" });
      expect(observer.looks.length).toBe(isHeard ? 0 : 1);
    },
  );

  test("is asked again with the same key where its answer was lost", async () => {
    const { facilitator, settling } = await lost(told, SIGNER, [settled]);
    expect(await settling).toEqual(success);
    const keys = facilitator.calls.flatMap(({ url, headers }) => {
      return url === "/settle" ? [headers["idempotency-key"]] : [];
    });
    expect(keys).toEqual(["key", "key"]);
  });

  test("decides that the payment on chain was for somebody else", async () => {
    const { settling } = await lost(told, SIGNER, [USED]);
    expect(await settling).toMatchObject({ success: false });
  });

  test("leaves it open where it cannot be asked", async () => {
    const { settling } = await lost(told, SIGNER);
    expect(await faultOf(settling)).toMatchObject({ kind: "unknown", transaction: undefined });
  });

  test("is not asked about a stranger's transaction", async () => {
    const { settling } = await lost(told, STRANGER);
    expect(await faultOf(settling)).toMatchObject(HELD);
  });
});

test("a refusal of any other facilitator is overruled by the chain, in its own transaction", async () => {
  const facilitator = await telling(USED, { signers: { "eip155:84532": [SIGNER] } });
  const observer = scriptObserver(UNUSED, confirmedBy(SIGNER, THEIRS));
  const { router } = meshOver([facilitator], { observer, tellsSigners: false });
  expect(await onTheWire(router).settle(exampleRequest, handing())).toMatchObject({
    transaction: THEIRS,
  });
});
