import { verifiedBy } from "../../support/verified.ts";
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import { CrowdedFault, type SettleOptions } from "../../../src/payments/facilitator.ts";
import type { FacilitatorRouter } from "../../../src/facilitator/facilitator-router.ts";
import { LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import { ChainError, type FirstLooks } from "../../../src/mechanism/mechanism.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { faultOf } from "../../support/fault-of.ts";
import type { FacilitatorReply } from "../../support/scripted-facilitator.ts";
import { exampleRequest, PAYER } from "../payments/settlement/example-request.ts";
import {
  broken,
  handing,
  kindsOf,
  meshOver,
  nobody,
  refusal,
  scripted,
  settled,
  valid,
  verify,
} from "./mesh-stage.ts";
import { failed, openRemote, samplesOf, soon, success } from "./remote-stage.ts";

const meshOf = (...facilitators: readonly { readonly url: string }[]): FacilitatorRouter =>
  meshOver(facilitators).router;

const refusedToVerify = {
  status: 200,
  body: { isValid: false, invalidReason: "insufficient_funds", payer: PAYER },
};

const settle = (router: FacilitatorRouter) =>
  onTheWire(router).settle(exampleRequest, { signal: soon() });

const LOOKS_GOOD = { authorization: {}, payer: PAYER, proven: true, runsCode: false, fault: null };

describe("a verification", () => {
  test.each<[string, FacilitatorReply]>([
    ["breaks the connection", broken],
    ["answers 500", { status: 500 }],
    ["answers 502 with HTML", { status: 502, body: "<html>" }],
    ["answers 429", { status: 429 }],
    ["answers nonsense", { status: 200, body: "<html>" }],
    [
      "could not judge",
      { status: 500, body: { isValid: false, invalidReason: "unexpected_verify_error" } },
    ],
  ])("moves on from a facilitator that %s", async (_, reply) => {
    const [first, second] = [await scripted(reply), await scripted(valid)];
    expect(await verify(meshOf(first, second))).toEqual(valid.body);
    expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
  });

  test("whose turn does not come is told that there are too many", async () => {
    const firstLooks: FirstLooks = {
      look: () => LOOKS_GOOD,
      inTurn: () => Promise.reject(new ChainError("CHAIN_BUSY", "too many")),
    };
    const { router } = meshOver([await scripted(valid)], { firstLooks });
    expect(await faultOf(verify(router))).toBeInstanceOf(CrowdedFault);
  });

  test.each([
    ["good", valid, true],
    ["refused", refusedToVerify, false],
  ])("tells the turns of its client that it was %s", async (_, reply, isGood) => {
    const told: unknown[] = [];
    const firstLooks: FirstLooks = {
      look: () => LOOKS_GOOD,
      async inTurn(_isProven, turn) {
        const value = await turn.work();
        told.push(turn.isGood(value));
        return value;
      },
    };
    await verify(meshOver([await scripted(reply)], { firstLooks }).router);
    expect(told).toEqual([isGood]);
  });

  test("moves on from where nobody listens", async () => {
    expect(await verify(meshOf(await nobody(), await scripted(valid)))).toEqual(valid.body);
  });

  test("moves on from a slow facilitator long before the caller's time is up", async () => {
    const [first, second] = [await scripted({ raw: () => {} }), await scripted(valid)];
    const { router, time } = meshOver([first, second]);
    const limits: number[] = [];
    time.timeout = (ms) => {
      limits.push(ms);
      return AbortSignal.timeout(20);
    };
    expect(await verify(router)).toEqual(valid.body);
    expect(limits).toEqual([3_000]);
  });

  test("asks one facilitator where it answers, in the configured order", async () => {
    const first = await scripted(refused("insufficient_funds"));
    const second = await scripted(valid);
    expect(await verify(meshOf(first, second))).toMatchObject({ isValid: false });
    expect(second.calls).toEqual([]);
  });

  test("fails with the last fault when none can be asked", async () => {
    const last = await scripted({ status: 503 });
    const fault = await faultOf(verify(meshOf(await nobody(), last)));
    expect(fault).toMatchObject({ kind: "unavailable", code: "unexpected_verify_error" });
    expect(fault.message).toContain("status 503");
  });

  test("passes by a facilitator whose circuit is open, until its cool-down is over", async () => {
    const [first, second] = [await scripted({ status: 500 }), await scripted(valid)];
    const { router, time } = meshOver([first, second]);
    for (let count = 0; count < 10; count += 1) await verify(router);
    expect([first.calls.length, second.calls.length]).toEqual([3, 10]);
    time.nowMs += 1_000;
    first.reply = valid;
    for (let count = 0; count < 10; count += 1) await verify(router);
    expect([first.calls.length, second.calls.length]).toEqual([13, 10]);
  });

  test("asks the first one when the circuits of all are open", async () => {
    const [first, second] = [await scripted({ status: 500 }), await scripted({ status: 500 })];
    const { router } = meshOver([first, second]);
    for (let count = 0; count < 3; count += 1) await faultOf(verify(router));
    first.reply = valid;
    expect(await verify(router)).toEqual(valid.body);
    expect([first.calls.length, second.calls.length]).toEqual([4, 3]);
  });
});

describe("a settlement", () => {
  test("moves on from where nobody listens, and from nobody else", async () => {
    const down = await nobody();
    const [second, third] = [await scripted(settled), await scripted(settled)];
    const handed = handing();
    expect(await onTheWire(meshOf(down, second, third)).settle(exampleRequest, handed)).toEqual(
      success,
    );
    expect([second.calls.length, third.calls.length]).toEqual([1, 0]);
    expect(handed.names).toEqual([down.url, second.url]);
  });

  test("leaves only when its hand-over is stored", async () => {
    const [first, second] = [await scripted(settled), await scripted(settled)];
    const handed = handing({
      onHandOver: () => Promise.reject(new LedgerUnavailable("disk full")),
    });
    const settling = onTheWire(meshOf(first, second)).settle(exampleRequest, handed);
    await expect(settling).rejects.toThrow("disk full");
    expect([first.calls.length, second.calls.length]).toEqual([0, 0]);
  });

  test("begins where the payment was verified", async () => {
    const [first, second] = [await scripted({ status: 500 }), await scripted(valid)];
    const router = meshOf(first, second);
    const verified = await verifiedBy(router, exampleRequest, soon());
    second.reply = settled;
    first.reply = settled;
    const options = { signal: soon(), verified };
    expect(await onTheWire(router).settle(exampleRequest, options)).toEqual(success);
    expect([first.count("/settle"), second.count("/settle")]).toEqual([0, 1]);
  });

  test.each<[string, string, FacilitatorReply]>([
    ["breaks the connection", "unknown", broken],
    ["answers 500", "unknown", { status: 500 }],
    ["tells no transaction", "unknown", { status: 200, body: { success: true } }],
    ["refuses it unread", "unavailable", { status: 429 }],
  ])("stays with a facilitator that %s (%s)", async (_, kind, reply) => {
    const [first, second] = [await scripted(reply), await scripted(settled)];
    const fault = await faultOf(settle(meshOf(first, second)));
    expect(fault).toMatchObject({ kind, code: "unexpected_settle_error" });
    expect(second.calls).toEqual([]);
  });

  test("that is refused is asked of nobody else", async () => {
    const first = await scripted(refusal("insufficient_funds"));
    const second = await scripted(settled);
    expect(await settle(meshOf(first, second))).toMatchObject({
      ...failed,
      errorReason: "insufficient_funds",
    });
    expect(second.calls).toEqual([]);
  });

  test("passes by a facilitator whose circuit is open", async () => {
    const [first, second] = [await scripted({ status: 500 }), await scripted(valid)];
    const router = meshOf(first, second);
    for (let count = 0; count < 3; count += 1) await verify(router);
    second.reply = settled;
    const handed = handing();
    expect(await onTheWire(router).settle({ ...exampleRequest }, handed)).toEqual(success);
    expect(handed.names).toEqual([second.url]);
  });

  test("fails as unreachable where nobody listens anywhere", async () => {
    const fault = await faultOf(settle(meshOf(await nobody(), await nobody())));
    expect(fault).toMatchObject({ kind: "unreachable", code: "unexpected_settle_error" });
  });

  test("without facilitators is a fault of its own", async () => {
    const fault = await faultOf(settle(meshOf()));
    expect(fault).toMatchObject({ kind: "unavailable", code: "unexpected_settle_error" });
    expect(await faultOf(verify(meshOf()))).toMatchObject({ code: "unexpected_verify_error" });
  });

  test("is not begun where receipts count and there is no chain to show them", async () => {
    const facilitator = await scripted(settled);
    const { router } = meshOver([facilitator], { remote: { confirm: "receipt" } });
    const handed = handing();
    const fault = await faultOf(onTheWire(router).settle(exampleRequest, handed));
    expect(fault.kind).toBe("unavailable");
    expect(fault.message).toContain("RPC");
    expect([handed.names, facilitator.calls]).toEqual([[], []]);
  });
});

describe("the health of a facilitator", () => {
  test("is told by a metric, and by the log when it changes", async () => {
    const first = await scripted({ status: 500 });
    const { router, metrics, time, log } = meshOver([first]);
    const health = () => samplesOf(metrics, "coinslot_facilitator_healthy");
    const sample = `coinslot_facilitator_healthy{facilitator="${first.url}"}`;
    expect(await health()).toEqual([`${sample} 1`]);
    for (let count = 0; count < 5; count += 1) await faultOf(verify(router));
    expect(await health()).toEqual([`${sample} 0`]);
    time.nowMs += 1_000;
    first.reply = valid;
    await verify(router);
    expect(await health()).toEqual([`${sample} 1`]);
    expect(log.map(({ level, facilitator }) => [level, facilitator])).toEqual([
      ["warn", first.url],
      ["info", first.url],
    ]);
  });

  test("is told no more of one that a reload has taken away", async () => {
    const [first, second] = [await scripted({ status: 500 }), await scripted(valid)];
    const { router, metrics } = meshOver([first]);
    for (let count = 0; count < 5; count += 1) await faultOf(verify(router));
    const { remote } = openRemote(second.url);
    router.use({ here: [], shared: [], remotes: [{ remote, isLeaving: false }] });
    expect(await samplesOf(metrics, "coinslot_facilitator_healthy")).toEqual([
      `coinslot_facilitator_healthy{facilitator="${second.url}"} 1`,
    ]);
  });

  test("is looked at from the side only while a circuit is open", async () => {
    const [first, second] = [await scripted({ status: 500 }), await scripted(valid)];
    const { router } = meshOver([first, second]);
    await router.probe(soon());
    for (let count = 0; count < 3; count += 1) await verify(router);
    await router.probe(soon());
    await verify(router);
    expect(first.calls.length).toBe(4);
    first.reply = { status: 200, body: { ...kindsOf("base").body, ...valid.body } };
    await router.probe(soon());
    await verify(router);
    expect([first.count("/supported"), first.count("/verify")]).toEqual([2, 4]);
    expect(second.count("/supported")).toBe(0);
  });
});

test("a payment in bytes of ours is asked for here, whoever settles on its network by now", async () => {
  const elsewhere = await scripted(valid);
  const asked: SettleOptions[] = [];
  const answer = { success: true, transaction: "0x1", network: "base-sepolia", payer: "" } as const;
  const embedded = Object({
    networks: [],
    settle: async (_: unknown, options: SettleOptions) => {
      asked.push(options);
      return answer;
    },
  });
  const { router } = meshOver([elsewhere], { embedded });
  const options = {
    signal: soon(),
    idempotencyKey: "key",
    claim: "new",
    isSigned: true,
  } as const;
  expect(router.isRemote("base-sepolia")).toBe(true);
  expect(await onTheWire(router).settle(exampleRequest, options)).toEqual(answer);
  expect(
    await onTheWire(router).settle(exampleRequest, { ...options, askedBefore: elsewhere.url }),
  ).toBe(answer);
  expect(asked).toHaveLength(2);
  expect(elsewhere.calls).toEqual([]);
});

describe("the supported kinds", () => {
  test("are those of all facilitators, once each, in the protocol's order", async () => {
    const first = await scripted(kindsOf("nowhere", "polygon", "base", "solana"));
    const second = await scripted(kindsOf("avalanche", "base", "base-sepolia"));
    const { kinds } = await meshOf(first, second).supported(soon());
    const names = ["base-sepolia", "base", "avalanche", "solana", "polygon"] as const;
    expect(kinds.map(({ x402Version, network }) => `${x402Version} ${network}`)).toEqual([
      ...[...names, "nowhere"].map((name) => `1 ${name}`),
      ...names.map((name) => `2 ${networkOf(name).caip2}`),
    ]);
  });

  test("are told in both versions, whichever a facilitator lists, and only those that are settled", async () => {
    const told = [
      { x402Version: 2, scheme: "upto", network: "eip155:8453", extra: { other: true } },
      { x402Version: 2, scheme: "exact", network: "eip155:8453" },
      { x402Version: 2, scheme: "exact", network: "eip155:999" },
      { x402Version: 3, scheme: "exact", network: "nowhere" },
    ];
    const { kinds } = await meshOf(
      await scripted({ status: 200, body: { kinds: told } }),
    ).supported(soon());
    expect(kinds).toEqual([{ x402Version: 1, scheme: "exact", network: "base" }, told[1], told[2]]);
  });

  test("are those of the facilitators that answer", async () => {
    const { kinds } = await meshOf(await nobody(), await scripted(kindsOf("base"))).supported(
      soon(),
    );
    expect(kinds.map(({ network }) => network)).toEqual(["base", "eip155:8453"]);
    const fault = await faultOf(meshOf(await nobody()).supported(soon()));
    expect(fault.kind).toBe("unavailable");
  });

  test("of networks settled elsewhere are remote", async () => {
    const router = meshOf(await scripted(kindsOf("base")));
    expect(router.isRemote("base")).toBe(true);
    const read = router.read(exampleRequest);
    expect(read.ok && router.precheck(read.value)).toBeUndefined();
  });
});

function refused(invalidReason: string) {
  return { status: 200, body: { isValid: false, invalidReason } };
}
