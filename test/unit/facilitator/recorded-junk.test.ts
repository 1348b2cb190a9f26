/** What settlements that are refused leave in the ledger of a hub, which others may call as they like. */
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { NoTurn } from "../../../src/facilitator/caller-places.ts";
import { MAX_STORED, RecordedFacilitator } from "../../../src/facilitator/recorded-facilitator.ts";
import { faultOf } from "../../support/fault-of.ts";
import { LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { EvmFirstLooks } from "../../../src/mechanism/evm/first-look.ts";
import { systemTime } from "../../../src/time/time.ts";
import type { FacilitatorRequest, PaymentRequirements } from "../../../src/x402/x402.ts";
import {
  freshAccount,
  requirementsFor,
  signPayment,
  type EvmPayment,
} from "../../support/payer.ts";
import type { FacilitatorReply } from "../../support/scripted-facilitator.ts";
import { meshOver, refusal, scripted, settled, valid } from "./mesh-stage.ts";
import { soon } from "./remote-stage.ts";
import { HEAD, scriptObserver, UNUSED } from "../payments/settlement/scripted-observer.ts";

const SHOP = freshAccount().address;
const bound = { payTo: SHOP };
const required = (members: Partial<PaymentRequirements> = {}) =>
  requirementsFor("base-sepolia", { ...bound, ...members });

/** A payment of a key that nobody has paid yet. */
async function payment(
  members: Partial<PaymentRequirements> = {},
  corrupt: (payment: EvmPayment) => EvmPayment = (each) => each,
): Promise<FacilitatorRequest> {
  const { account } = freshAccount();
  const paymentRequirements = required(members);
  const requirements = required();
  return {
    paymentPayload: await signPayment({ account, requirements, corrupt }),
    paymentRequirements,
  };
}

/** Signed by nobody in particular. */
function unproven(each: EvmPayment): EvmPayment {
  return { ...each, payload: { ...each.payload, signature: `0x${"11".repeat(64)}1b` } };
}

const free = { outputSchema: { text: "x".repeat(60_000) } };

async function hub() {
  const remote = await scripted(refusal("insufficient_funds"));
  const verdict = { status: 200, body: { isValid: false, invalidReason: "insufficient_funds" } };
  const replies: Record<"verify" | "settle", FacilitatorReply> = {
    verify: verdict,
    settle: remote.reply,
  };
  remote.answer = ({ url }) => (url === "/verify" ? replies.verify : replies.settle);
  const folder = await mkdtemp(join(tmpdir(), "hub-"));
  const path = join(folder, "ledger.db");
  const ledger = await openSqliteLedger({ path, time: systemTime, life: "life" });
  const close = ledger.close.bind(ledger);
  onTestFinished(async () => {
    await close();
    await rm(folder, { recursive: true });
  });
  const firstLooks = new EvmFirstLooks(() => Math.floor(Date.now() / 1_000));
  const observer = scriptObserver(UNUSED);
  const { router } = meshOver([remote], { firstLooks, observer });
  const facilitator = new RecordedFacilitator({
    facilitator: router,
    ledger,
    time: systemTime,
  });
  const settle = (request: FacilitatorRequest, idempotencyKey?: string) =>
    facilitator.settle(request, {
      signal: soon(),
      client: "a stranger",
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    });
  /** Bytes of the ledger, which is closed then. */
  const size = async (): Promise<number> => {
    await close();
    return (await stat(path)).size;
  };
  const rows = () => ledger.books.list({ limit: 10 });
  return { facilitator, remote, replies, settle, rows, ledger, size, observer };
}

describe("a settlement that is refused", () => {
  test("because it can never be good is not written, and nobody is asked", async () => {
    const { remote, settle, rows } = await hub();
    const other = await payment({ payTo: freshAccount().address });
    for (const key of [undefined, "mine"]) {
      expect(await settle(other, key)).toMatchObject({
        success: false,
        errorReason: "invalid_exact_evm_payload_recipient_mismatch",
      });
    }
    expect(await rows()).toEqual([]);
    expect(remote.calls.length).toBe(0);
  });

  test.each<[string, () => Promise<FacilitatorRequest>]>([
    ["that anybody can write", () => payment({}, unproven)],
    [
      "with a long name of its resource",
      () => payment({ resource: `https://a/${"x".repeat(16_000)}` }),
    ],
  ])("%s is verified first, and not written", async (_, open) => {
    const { remote, settle, rows } = await hub();
    expect(await settle(await open(), "mine")).toMatchObject({
      success: false,
      errorReason: "insufficient_funds",
    });
    expect([remote.count("/verify"), remote.count("/settle")]).toEqual([1, 0]);
    expect(await rows()).toEqual([]);
  });

  test("once is written without what says nothing of the payment", async () => {
    const { settle, rows, ledger, remote } = await hub();
    const named = { ...required().extra, feePayer: "F".repeat(44) };
    const mimeType = "application/json";
    const extra = { ...named, memo: "x", name2: "x".repeat(200) };
    const large = await payment({ ...free, mimeType, extra });
    expect(await settle(large, "mine")).toMatchObject({ success: false });
    expect(remote.calls.find(({ url }) => url === "/settle")?.body).toContain("xxx");
    expect(await rows()).toMatchObject([{ state: "FAILED" }]);
    const sale = { binding: "GET /", target: "/" };
    const { request: stored } = await ledger.recall(large.paymentPayload, sale);
    const { maxTimeoutSeconds, payTo } = large.paymentRequirements;
    // What others require of a request stays, since recovery asks with it.
    expect(stored?.paymentRequirements).toMatchObject({ maxTimeoutSeconds, payTo, mimeType });
    expect(stored?.paymentRequirements.extra).toEqual(named);
    expect(JSON.stringify(stored).length).toBeLessThan(MAX_STORED);
  });

  test("is handed over with its extensions, which are not written", async () => {
    const { settle, ledger, remote } = await hub();
    const extensions = { other: { info: { text: "y".repeat(MAX_STORED) } } };
    const { paymentPayload: bare, paymentRequirements } = await payment();
    const paymentPayload = { ...bare, x402Version: 2, extensions };
    await settle({ paymentPayload, paymentRequirements }, "mine");
    expect([remote.count("/verify"), remote.count("/settle")]).toEqual([0, 1]);
    expect(remote.calls[0]?.body).toContain("yyy");
    const sale = { binding: "GET /", target: "/" };
    const { request: stored } = await ledger.recall(paymentPayload, sale);
    expect(stored).toEqual({ paymentPayload: { ...bare, x402Version: 2 }, paymentRequirements });
  });

  test("by the hundred takes little of the ledger", async () => {
    const { settle, size } = await hub();
    for (let number = 0; number < 100; number += 1) await settle(await payment(free));
    expect(await size()).toBeLessThan(1024 * 1024);
  });

  test("before it was handed over leaves nothing", async () => {
    const { remote, settle, rows, observer } = await hub();
    const used = { code: "invalid_transaction_state", detail: "used" } as const;
    observer.stands = { head: HEAD, used };
    expect(await settle(await payment(), "mine")).toMatchObject({ errorReason: used.code });
    expect(remote.count("/settle")).toBe(0);
    expect(await rows()).toEqual([]);
  });
});

describe("a settlement that is good", () => {
  test("is verified first where anybody could have written it, and settled", async () => {
    const { remote, replies, settle, rows } = await hub();
    Object.assign(replies, { verify: valid, settle: settled });
    expect(await settle(await payment({}, unproven), "mine")).toMatchObject({ success: true });
    expect([remote.count("/verify"), remote.count("/settle")]).toEqual([1, 1]);
    expect(await rows()).toMatchObject([{ state: "SETTLED" }]);
  });

  test("is told again to its caller, whatever could be said of it by now", async () => {
    const { remote, replies, settle } = await hub();
    const junk = await payment({}, unproven);
    Object.assign(replies, { verify: valid, settle: settled });
    const answer = await settle(junk, "mine");
    replies.verify = { status: 200, body: { isValid: false, invalidReason: "used" } };
    expect(await settle(junk, "mine")).toMatchObject({ success: answer.success });
    expect(remote.count("/settle")).toBe(1);
  });

  test("tells nothing of an earlier one to who shows no key", async () => {
    const { remote, replies, settle } = await hub();
    const junk = await payment({}, unproven);
    Object.assign(replies, { verify: valid, settle: settled });
    await settle(junk, "mine");
    expect(await settle(junk)).toMatchObject({ success: false });
    expect(remote.count("/verify")).toBe(2);
  });

  test("is handed over when it is its turn", async () => {
    const { remote, facilitator } = await hub();
    const inTurn = () => Promise.reject(new NoTurn());
    const signal = soon();
    const fault = await faultOf(facilitator.settle(await payment(), { signal, inTurn }));
    expect(fault).toMatchObject({ kind: "unavailable" });
    expect(remote.calls.length).toBe(0);
  });

  test("asks nothing more where its signature is the payer's", async () => {
    const { remote, replies, settle } = await hub();
    replies.settle = settled;
    expect(await settle(await payment())).toMatchObject({ success: true });
    expect([remote.count("/verify"), remote.count("/settle")]).toEqual([0, 1]);
  });
});

describe("a settlement that was handed over", () => {
  const lost: FacilitatorReply = { status: 500, body: { error: "no answer" } };

  test("stays where it was, whatever keeps it from being asked for again", async () => {
    const { facilitator, replies, rows, ledger } = await hub();
    replies.settle = lost;
    const request = await payment();
    const idempotencyKey = "mine";
    const first = { signal: AbortSignal.timeout(1_000), idempotencyKey };
    expect(await faultOf(facilitator.settle(request, first))).toMatchObject({ kind: "unknown" });
    const noTurn = { ...first, inTurn: () => Promise.reject(new NoTurn()) };
    const again = { ...noTurn, signal: AbortSignal.timeout(1_000) };
    expect(await faultOf(facilitator.settle(request, again))).toMatchObject({ kind: "unknown" });
    vi.spyOn(ledger, "step").mockRejectedValue(new LedgerUnavailable("no disk"));
    const third = { idempotencyKey, signal: AbortSignal.timeout(1_000) };
    await expect(facilitator.settle(request, third)).rejects.toThrow();
    expect(await rows()).toMatchObject([{ state: "SIGNED" }]);
  });

  test("has its turn for one answer, and is watched no longer than its caller stays", async () => {
    const { facilitator, replies, rows } = await hub();
    replies.settle = lost;
    const gone = new AbortController();
    const turns: string[] = [];
    const settling = facilitator.settle(await payment(), {
      signal: new AbortController().signal,
      gone: gone.signal,
      inTurn: (work) => work().finally(() => turns.push("over")),
    });
    const fault = faultOf(settling);
    await expect.poll(() => turns).toEqual(["over"]);
    expect(await Promise.race([fault, Promise.resolve("watched")])).toBe("watched");
    gone.abort();
    expect(await fault).toMatchObject({ kind: "unknown" });
    expect(await rows()).toMatchObject([{ state: "SIGNED" }]);
  });
});

test("what is supported is asked for once, however many ask", async () => {
  const { facilitator, remote, replies } = await hub();
  const kinds = [{ x402Version: 1, scheme: "exact", network: "base-sepolia" }];
  replies.settle = { status: 200, body: { kinds } };
  for (const told of await Promise.all([facilitator.supported(), facilitator.supported()])) {
    expect(told.kinds).toMatchObject([...kinds, { x402Version: 2 }]);
  }
  expect((await facilitator.supported()).kinds).toHaveLength(2);
  expect(remote.count("/supported")).toBe(1);
});
