/** Settlements whose claim, or whose signature, the ledger does not take or answer for. */
import { describe, expect, test } from "vitest";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import { faultOf } from "../../../support/fault-of.ts";
import {
  keyOf,
  nonceOf,
  openEngine,
  payment,
  settle,
  unavailable,
  unfinished,
  type EngineStage,
} from "./engine-stage.ts";

describe("a settlement that the ledger does not answer for", () => {
  test("when the bytes were to be stored is unknown, and nothing is sent", async () => {
    const at = await openEngine({ ledger: { signing: { signed: unavailable } } });
    const fault = await at.time.of(faultOf(settle(at, payment(1), { key: "key" })));
    expect(fault).toMatchObject({ kind: "unknown", code: "unexpected_settle_error" });
    expect(at.chain.sent).toEqual([]);
    // Nothing was stored: the next round lets the payer have it back.
    await at.facilitator.recover();
    expect(await at.ledger.outcome(keyOf(payment(1)))).toEqual({ kind: "gone" });
  });

  test("although it stored the bytes is sent by the next round, and never signed twice", async () => {
    let isLost = true;
    const at: EngineStage = await openEngine({
      ledger: {
        signing: {
          async signed(...all) {
            const stored = await at.ledger.signing.signed(...all);
            if (isLost) return unavailable();
            return stored;
          },
        },
      },
    });
    const settling = settle(at, payment(1), { key: "key" });
    await at.time.until(async () => (await unfinished(at)).length === 1);
    expect(at.chain.sent).toEqual([]);
    isLost = false;
    await at.facilitator.recover();
    expect(await at.time.of(settling)).toMatchObject({ success: true, transaction: "0x0" });
    expect(at.chain.count("prepare")).toBe(1);
  });

  test("because its claim is not ours any more does not go down with the others", async () => {
    const at = await openEngine({ maxTogether: 10 });
    at.chain.automines = false;
    void settle(at, payment(1, 1)).catch(() => undefined);
    await at.time.until(() => at.chain.sent.length === 1);
    const dropped = settle(at, payment(2, 2));
    const good = settle(at, payment(3, 3));
    await at.time.advance(0);
    await at.ledger.step(keyOf(payment(2, 2)), { kind: "abandoned" });
    const fault = at.time.of(faultOf(dropped));
    expect(await fault).toMatchObject({ kind: "unavailable" });
    at.chain.automines = true;
    at.chain.mine();
    expect(await at.time.of(good)).toMatchObject({ success: true });
    expect(at.chain.movedIn(nonceOf(2))).toBeUndefined();
  });
});

describe("a claim of a resource server", () => {
  const request = payment(1);
  const claim = ({ ledger }: EngineStage) =>
    ledger.step(keyOf(request), {
      kind: "claim",
      terms: {
        binding: "GET /",
        target: "/",
        claimant: "",
        idempotencyKey: "key",
        request,
      },
    });

  test("is left to it when nothing could be signed", async () => {
    const at = await openEngine();
    await claim(at);
    at.chain.errors.set("prepare", new ChainError("CHAIN_FEE", "too much"));
    const fault = at.time.of(faultOf(settle(at, request, { key: "key" })));
    expect(await fault).toMatchObject({ kind: "unavailable" });
    expect(await claim(at)).toMatchObject({ kind: "unresolved" });
    at.chain.errors.clear();
    expect(await at.time.of(settle(at, request, { key: "key" }))).toMatchObject({ success: true });
    expect(await claim(at)).toMatchObject({ kind: "settled" });
  });

  test("that it dropped while it was being prepared is not signed", async () => {
    const preparing = Promise.withResolvers<void>();
    const at: EngineStage = await openEngine({
      ledger: {
        signing: {
          async signed(...all) {
            await preparing.promise;
            return at.ledger.signing.signed(...all);
          },
        },
      },
    });
    await claim(at);
    const settling = settle(at, request, { key: "key" });
    await at.time.advance(0);
    await at.ledger.step(keyOf(request), { kind: "released" });
    preparing.resolve();
    expect((await at.time.of(faultOf(settling))).kind).toBe("unavailable");
    expect(at.chain.sent).toEqual([]);
    expect(await unfinished(at)).toEqual([]);
  });
});

test("a ledger that cannot be tidied up keeps recovery from nothing else", async () => {
  const before = await openEngine();
  before.chain.automines = false;
  const settling = settle(before, payment(1), { key: "key" }).catch(() => undefined);
  await before.time.until(() => before.chain.sent.length === 1);
  await before.facilitator.close();
  await settling;
  const { chain, time, ledger: on } = before;
  const after = await openEngine({
    chain,
    time,
    on,
    ledger: { upkeep: { reap: unavailable } },
    isStarted: false,
  });
  await expect(after.facilitator.recover()).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
  chain.mine();
  await time.until(async () => (await on.outcome(keyOf(payment(1)))).kind === "settled");
});
