import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { RecordedFacilitator } from "../../../src/facilitator/recorded-facilitator.ts";
import { LedgerUnavailable, type Ledger, type TransitionKind } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../src/time/time.ts";
import { faultOf } from "../../support/fault-of.ts";
import { MemoryLedger, MemoryStore } from "../../support/memory-ledger.ts";
import { ask, good, stage as endpoints } from "./endpoints-stage.ts";
import { exampleRequest } from "../payments/settlement/example-request.ts";
import { LeapingTime } from "../payments/settlement/leaping-time.ts";
import { broken, meshOver, nobody, refusal, scripted, settled } from "./mesh-stage.ts";
import { failed, soon, success } from "./remote-stage.ts";
import {
  CONFIRMED,
  EXPIRED,
  scriptObserver,
  UNUSED,
  type ScriptedObserver,
} from "../payments/settlement/scripted-observer.ts";

/** From here on the ledger stores no transition of that kind; what it returns ends that. */
function failAt(ledger: Ledger, kind: TransitionKind): () => void {
  const step = ledger.step.bind(ledger);
  ledger.step = async (key, transition) => {
    if (transition.kind === kind) throw new LedgerUnavailable("disk full");
    return step(key, transition);
  };
  return () => {
    ledger.step = step;
  };
}

type Facilitators = Parameters<typeof meshOver>[0];

/** A process that offers those facilitators to others; its ledger is in memory unless one is given. */
function offer(
  facilitators: Facilitators,
  ledger: Ledger = memoryLedger(),
  observer?: ScriptedObserver,
) {
  const { router, time } = meshOver(facilitators, observer === undefined ? {} : { observer });
  const facilitator = new RecordedFacilitator({ facilitator: router, ledger, time: systemTime });
  const settle = (idempotencyKey?: string) =>
    facilitator.settle(exampleRequest, {
      signal: soon(),
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    });
  return { facilitator, settle, ledger, time };
}

function memoryLedger(store = new MemoryStore(), life = "life"): MemoryLedger {
  return new MemoryLedger({ store, time: new LeapingTime(), life });
}

const used = { ...failed, errorReason: "invalid_transaction_state" };

describe("a settlement for another resource server", () => {
  test("is handed over and settled", async () => {
    const remote = await scripted(settled);
    const { settle, ledger } = offer([remote]);
    expect(await settle()).toEqual(success);
    const [row] = await ledger.books.list({ limit: 10 });
    expect(row).toMatchObject({ state: "SETTLED", facilitator: remote.url, binding: null });
  });

  test("is told again to the caller with its key, and to nobody else", async () => {
    const remote = await scripted(settled);
    const { settle } = offer([remote]);
    await settle("mine");
    expect(await settle("mine")).toEqual(success);
    for (const key of [undefined, "theirs"]) expect(await settle(key)).toMatchObject(used);
    expect(remote.calls.length).toBe(1);
    expect(remote.calls[0]?.headers["idempotency-key"]).toBe("mine");
  });

  test("is one, however many ask for it at the same time", async () => {
    const remote = await scripted(settled);
    const { settle } = offer([remote]);
    const same = await Promise.all(Array.from({ length: 10 }, () => settle("mine")));
    expect(same).toEqual(Array.from({ length: 10 }, () => success));
    const others = await Promise.all(Array.from({ length: 10 }, () => settle()));
    for (const other of others) expect(other).toMatchObject(used);
    expect(remote.calls.length).toBe(1);
  });

  test("that was refused is refused again, and may be asked for anew by another", async () => {
    const remote = await scripted(refusal("insufficient_funds"));
    const { settle } = offer([remote]);
    const refused = { ...failed, errorReason: "insufficient_funds" };
    expect(await settle("mine")).toMatchObject(refused);
    expect(await settle("mine")).toMatchObject(refused);
    expect(remote.calls.length).toBe(1);
    remote.reply = settled;
    expect(await settle("theirs")).toEqual(success);
  });

  test("that was refused is told as settled once the chain shows it, and to its caller only", async () => {
    const remote = await scripted(refusal("invalid_scheme"));
    const observer = scriptObserver(UNUSED, UNUSED, CONFIRMED);
    const { settle, ledger, time } = offer([remote], memoryLedger(), observer);
    const refused = { ...failed, errorReason: "invalid_scheme" };
    expect(await settle("mine")).toMatchObject(refused);
    expect(await settle("mine")).toMatchObject(refused);
    time.nowMs += 5_000;
    // Whoever else shows it: what the chain has by now is not for him.
    expect(await settle("theirs")).toMatchObject(refused);
    expect(observer.looks.length).toBe(2);
    expect(await settle("mine")).toEqual(success);
    expect(await settle("theirs")).toMatchObject(used);
    expect(remote.calls.length).toBe(1);
    expect(await ledger.queues.doubted(10)).toEqual([]);
  });

  test("that was refused may be asked for anew when the chain says that it was not settled", async () => {
    const remote = await scripted(refusal("invalid_scheme"));
    const observer = scriptObserver(UNUSED, EXPIRED);
    const { settle } = offer([remote], memoryLedger(), observer);
    expect(await settle("mine")).toMatchObject(failed);
    expect(await settle("mine")).toMatchObject(failed);
    remote.reply = settled;
    expect(await settle("theirs")).toEqual(success);
  });

  test.each([
    ["nobody can be reached", () => nobody(), "unreachable"],
    ["it was refused unread", () => scripted({ status: 429 }), "unavailable"],
  ])("leaves nothing behind where %s", async (_, open, kind) => {
    const { settle, ledger } = offer([await open()]);
    expect(await faultOf(settle("mine"))).toMatchObject({ kind });
    expect(await ledger.books.list({ limit: 10 })).toEqual([]);
  });

  test("leaves nothing behind, and is not sent, where its hand-over could not be stored", async () => {
    const remote = await scripted(settled);
    const { settle, ledger } = offer([remote]);
    failAt(ledger, "handedOver");
    await expect(settle("mine")).rejects.toThrow("disk full");
    expect(await ledger.books.list({ limit: 10 })).toEqual([]);
    expect(remote.calls).toEqual([]);
  });

  test("is unknown, not settled, where its outcome could not be stored", async () => {
    const { settle, ledger } = offer([await scripted(settled)]);
    const mend = failAt(ledger, "settled");
    expect(await faultOf(settle("mine"))).toMatchObject({ kind: "unknown" });
    mend();
    expect(await settle("mine")).toEqual(success);
  });

  test("waits for another process that has it", async () => {
    const store = new MemoryStore();
    const heard = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    const remote = await scripted({
      raw(response) {
        heard.resolve();
        void answer.promise.then(() => response.end(JSON.stringify(success)));
      },
    });
    const first = offer([remote], memoryLedger(store, "first"));
    const other = memoryLedger(store, "second");
    const step = first.ledger.step.bind(first.ledger);
    const [begun, hand] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    first.ledger.step = async (key, transition) => {
      if (transition.kind === "handedOver") {
        begun.resolve();
        await hand.promise;
      }
      return step(key, transition);
    };
    const leading = first.settle("mine");
    await begun.promise;
    const following = offer([remote], other).settle("mine");
    hand.resolve();
    await heard.promise;
    answer.resolve();
    expect(await leading).toEqual(success);
    expect(await following).toEqual(success);
    expect(remote.calls.length).toBe(1);
  });

  test("of an unknown network is refused", async () => {
    const { facilitator } = offer([await scripted(settled)]);
    const { paymentPayload, paymentRequirements } = exampleRequest;
    const request = {
      paymentPayload: { ...paymentPayload, network: "nowhere" },
      paymentRequirements: { ...paymentRequirements, network: "nowhere" },
    };
    expect(await facilitator.settle(request, { signal: soon() })).toMatchObject({
      success: false,
      errorReason: "invalid_network",
    });
  });
});

describe("a settlement for another resource server, over a restart,", () => {
  test("is asked for where it was left, with the key that it was begun with", async () => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-recorded-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, "ledger.db");
    const open = (life: string) => openSqliteLedger({ path, time: systemTime, life });

    const down = await nobody();
    const second = await scripted(broken);
    const before = await open("before");
    const process = offer([down, second], before);
    expect(await faultOf(process.settle("mine"))).toMatchObject({ kind: "unknown" });
    await before.close();

    const first = await scripted(settled, Number(new URL(down.url).port));
    second.reply = settled;
    const after = await open("after");
    onTestFinished(() => after.close());
    const asked = second.calls.length;
    expect(await after.queues.handedOvers(10)).toMatchObject([
      { facilitator: second.url, idempotencyKey: "mine" },
    ]);
    expect(await offer([first, second], after).settle("mine")).toEqual(success);
    expect([first.calls.length, second.calls.length - asked]).toEqual([0, 1]);
    expect(await after.queues.handedOvers(10)).toEqual([]);
  });
});

describe("the REST endpoints over remote facilitators", () => {
  test("judge, settle once, and list what the others settle", async () => {
    const kinds = [{ x402Version: 1, scheme: "exact", network: "base-sepolia" }];
    const body = { ...success, isValid: true, kinds };
    const remote = await scripted({ status: 200, body });
    const { facilitator } = offer([remote]);
    const at = await endpoints({
      facilitator: {
        verify: (...given) => facilitator.verify(...given),
        settle: (...given) => facilitator.settle(...given),
        supported: () => facilitator.supported(),
      },
    });
    expect(await ask(at, "/verify", { body: good })).toMatchObject({
      status: 200,
      body: { isValid: true },
    });
    expect(await ask(at, "/settle", { body: good })).toMatchObject({ status: 200, body: success });
    expect(await ask(at, "/settle", { body: good })).toMatchObject({ status: 200, body: used });
    const later = { ...kinds[0], x402Version: 2, network: "eip155:84532" };
    const listed = { kinds: [...kinds, later], extensions: [], signers: {} };
    expect(await ask(at, "/supported")).toMatchObject({ status: 200, body: listed });
  });

  test("answer 500 while the outcome is unknown, and the outcome to a repeat with the key", async () => {
    const remote = await scripted(broken);
    const { facilitator } = offer([remote]);
    const settle = facilitator.settle.bind(facilitator);
    const at = await endpoints({ facilitator: { settle } });
    const send = () => ask(at, "/settle", { body: good, headers: { "Idempotency-Key": "mine" } });
    expect(await send()).toMatchObject({
      status: 500,
      body: { ...failed, errorReason: "unexpected_settle_error" },
    });
    remote.reply = settled;
    expect(await send()).toMatchObject({ status: 200, body: success });
  });
});
