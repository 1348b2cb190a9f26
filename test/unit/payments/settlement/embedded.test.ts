import { verifiedBy } from "../../../support/verified.ts";
import { onTheWire } from "../../../../src/facilitator/wire-facilitator.ts";
import type { Asker } from "../../../../src/mechanism/mechanism.ts";
import { describe, expect, test } from "vitest";
import { EmbeddedFacilitator } from "../../../../src/payments/settlement/embedded.ts";
import { createEvmMechanism } from "../../../../src/mechanism/evm/evm.ts";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { Metrics } from "../../../../src/telemetry/metrics.ts";
import { caip2Of } from "../../../../src/x402/version-2.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { NETWORK_NAMES, networkOf } from "../../../../src/x402/network.ts";
import { faultOf } from "../../../support/fault-of.ts";
import {
  keyOf,
  nonceOf,
  openEngine,
  payment,
  samplesOf,
  settle,
  unavailable,
  unfinished,
  type EngineStage,
} from "./engine-stage.ts";
import { PAYER } from "./example-request.ts";

const VERIFIED_FOR_MS = 5_000;

const verify = ({ facilitator, time }: EngineStage, request: ReturnType<typeof payment>) =>
  onTheWire(facilitator).verify(request, time.timeout(10_000));

describe("the supported kinds", () => {
  test("are in the protocol's order, then those that it does not name", async () => {
    const mechanisms = NETWORK_NAMES.map(networkOf).flatMap((network) =>
      network.kind === "evm"
        ? createEvmMechanism({
            network,
            assets: [network.asset],
            rpcUrls: ["http://127.0.0.1:1"],
            keys: [`0x${"01".repeat(32)}`],
            clock: () => 0,
            allowPayTo: "any",
          })
        : [],
    );
    const time = systemTime;
    const ledger = await openSqliteLedger({ path: ":memory:", time, life: "life" });
    const facilitator = new EmbeddedFacilitator({
      mechanisms,
      ledger,
      gate: { isOpen: () => true, isTrusted: () => true },
      telemetry: {
        logger: createLogger({ level: "silent", format: "json" }),
        metrics: new Metrics("test"),
      },
      time,
      describeAsset: () => ({ symbol: "USDC", decimals: 6 }),
    });
    const { kinds, signers } = await facilitator.supported();
    expect(kinds.every(({ scheme }) => scheme === "exact")).toBe(true);
    const named = ["base-sepolia", "base", "avalanche-fuji", "avalanche", "iotex"];
    const others = ["peaq", "polygon", "polygon-amoy", "sei", "sei-testnet"];
    const names = [...named, ...others];
    expect(kinds.map(({ x402Version, network }) => `${x402Version} ${network}`)).toEqual([
      ...names.map((name) => `1 ${name}`),
      ...names.map((name) => `2 ${caip2Of(name)}`),
    ]);
    expect([...facilitator.networks].sort()).toEqual(names.sort());
    expect(signers).toEqual({ "eip155:*": mechanisms[0]?.accounts });
    await facilitator.close();
    await ledger.close();
  });
});

describe("the local check", () => {
  const fault = { code: "invalid_exact_evm_payload_authorization_value", detail: "less" } as const;

  test.each<[string, boolean, typeof fault | null, boolean]>([
    ["lets a good payment pass", true, null, false],
    ["refuses a certain fault", true, fault, true],
    ["leaves a signature that it cannot prove to the chain", false, null, false],
    ["refuses what no signature could make good", false, fault, true],
  ])("%s", async (_, proven, found, isRefused) => {
    const authorization = { nonce: nonceOf(1) };
    const value = { authorization, payer: PAYER, proven, runsCode: !proven, fault: found };
    const at = await openEngine({ members: { check: () => ({ ok: true, value }) } });
    at.chain.calls.length = 0;
    const read = at.facilitator.read(payment(1));
    expect(read.ok && at.facilitator.precheck(read.value)).toEqual(isRefused ? fault : undefined);
    if (isRefused) {
      const refused = { success: false, errorReason: fault.code };
      expect(await at.time.of(settle(at, payment(1)))).toMatchObject(refused);
      expect(await at.time.of(settle(at, payment(1), { key: "key" }))).toMatchObject(refused);
      expect(await at.ledger.outcome(keyOf(payment(1)))).toEqual({ kind: "gone" });
    }
    expect(at.chain.calls).toEqual([]);
  });
});

describe("a verification", () => {
  test("stands in for the settlement's own for five seconds, where it is handed on", async () => {
    const at = await openEngine();
    at.chain.isFinal = true;
    const [quick, slow, forgotten] = [payment(1), payment(2), payment(3)];
    await verify(at, forgotten);
    const found = [];
    for (const request of [quick, slow]) {
      found.push(await verifiedBy(at.facilitator, request, at.time.timeout(1_000)));
    }
    expect(at.chain.count("inspect")).toBe(3);
    await at.time.of(settle(at, forgotten));
    expect(at.chain.count("inspect")).toBe(4);
    const verifiedMs = at.time.now();
    const [ofQuick = {}, ofSlow = {}] = found;
    await at.time.of(settle(at, quick, { verified: ofQuick }));
    expect(at.chain.count("inspect")).toBe(4);
    await at.time.advance(VERIFIED_FOR_MS - (at.time.now() - verifiedMs));
    await at.time.of(settle(at, slow, { verified: ofSlow }));
    expect(at.chain.count("inspect")).toBe(5);
  });

  test("signs nothing for a claim that is gone by then", async () => {
    const at = await openEngine();
    const request = payment(1);
    const verified = await verifiedBy(at.facilitator, request, at.time.timeout(1_000));
    const claimed = {
      signal: at.time.timeout(10_000),
      idempotencyKey: "key",
      claim: "new",
    } as const;
    const settling = onTheWire(at.facilitator).settle(request, { ...claimed, verified });
    expect(await at.time.of(faultOf(settling))).toMatchObject({ kind: "unavailable" });
    expect(at.chain.sent).toEqual([]);
  });

  test("that was a refusal stands in for nothing", async () => {
    const at = await openEngine();
    at.chain.refused.set(nonceOf(1), { code: "insufficient_funds", detail: "no" });
    const request = payment(1);
    await verify(at, request);
    const answer = await at.time.of(settle(at, request));
    expect(answer).toMatchObject({ errorReason: "insufficient_funds" });
    expect(at.chain.count("inspect")).toBe(2);
    expect(await at.ledger.outcome(keyOf(request))).toEqual({ kind: "gone" });
  });

  test("asks nothing of a network that has not proven itself", async () => {
    const at = await openEngine({ isOpen: () => false });
    expect(await faultOf(verify(at, payment(1)))).toMatchObject({ kind: "unavailable" });
    const settling = at.time.of(faultOf(settle(at, payment(1), { key: "key" })));
    expect(await settling).toMatchObject({ kind: "unavailable" });
    expect(at.chain.calls).toEqual([]);
  });
});

describe("a settlement that cannot be begun", () => {
  const fee = new ChainError("CHAIN_FEE", "the fee is above our cap");

  test.each(["inspect", "prepare"])("because of '%s' leaves no claim behind", async (failing) => {
    const at = await openEngine();
    at.chain.errors.set(failing, fee);
    const fault = await at.time.of(faultOf(settle(at, payment(1), { key: "key" })));
    expect(fault).toMatchObject({
      kind: "unavailable",
      code: "unexpected_settle_error",
      cause: fee,
    });
    expect(at.chain.sent).toEqual([]);
    at.chain.errors.clear();
    // The claim is gone, so another caller may settle; the account nonce was not used up.
    const answer = { success: true, transaction: "0x0" };
    expect(await at.time.of(settle(at, payment(1)))).toMatchObject(answer);
  });

  test("because no draft can be signed leaves no claim behind", async () => {
    const at = await openEngine({
      members: {
        prepare: async (_, account) => ({
          draft: {
            account,
            sign: () => {
              throw new Error("no key");
            },
          },
          leftOut: [],
        }),
      },
    });
    const fault = await at.time.of(faultOf(settle(at, payment(1), { key: "key" })));
    expect(fault).toMatchObject({ kind: "unavailable", cause: { message: "no key" } });
    expect(await at.ledger.outcome(keyOf(payment(1)))).toEqual({ kind: "gone" });
  });

  test("because no account nonce can be read is given back at once", async () => {
    const at = await openEngine({ isStarted: false });
    at.chain.errors.set("accountNonce", fee);
    const started = at.time.now();
    const fault = at.time.of(faultOf(settle(at, payment(1), { key: "key" })));
    expect(await fault).toMatchObject({ kind: "unavailable", cause: fee });
    expect(at.time.now()).toBe(started);
    expect(await at.ledger.outcome(keyOf(payment(1)))).toEqual({ kind: "gone" });
    at.chain.errors.clear();
    await at.time.advance(1_000);
    expect(await at.time.of(settle(at, payment(1)))).toMatchObject({ success: true });
  });

  test("because the ledger takes no claim is charged to nobody", async () => {
    const at = await openEngine({ onStep: (kind) => kind === "begin" && unavailable() });
    at.chain.calls.length = 0;
    const settling = at.time.of(faultOf(settle(at, payment(1))));
    expect(await settling).toMatchObject({ kind: "unavailable" });
    expect(at.chain.calls).toEqual([]);
  });

  test("is not known to be new when the ledger cannot be asked for its key", async () => {
    const at = await openEngine({ onStep: (kind) => kind === "begin" && unavailable() });
    const settling = at.time.of(faultOf(settle(at, payment(1), { key: "key" })));
    expect(await settling).toMatchObject({ kind: "unknown" });
  });

  test("and whose claim the ledger does not drop is free again as soon as it can be", async () => {
    let isDown = true;
    const at: EngineStage = await openEngine({
      onStep: (kind) => kind === "abandoned" && isDown && unavailable(),
    });
    at.chain.errors.set("prepare", fee);
    const settling = at.time.of(faultOf(settle(at, payment(1))));
    expect(await settling).toMatchObject({ kind: "unavailable" });
    expect(await at.ledger.outcome(keyOf(payment(1)))).toMatchObject({ kind: "pending" });
    isDown = false;
    await at.facilitator.recover();
    expect(await at.ledger.outcome(keyOf(payment(1)))).toEqual({ kind: "gone" });
  });
});

describe("a settlement", () => {
  test("is one, for all who ask with one key at the same time", async () => {
    const at = await openEngine();
    const same = Array.from({ length: 5 }, () => settle(at, payment(1), { key: "key" }));
    const answers = await at.time.of(Promise.all(same));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toMatchObject({ success: true, transaction: "0x0" });
    expect(at.chain.sent).toEqual(["0x0"]);
  });

  test("is refused to whoever comes later without its key", async () => {
    const at = await openEngine();
    await at.time.of(settle(at, payment(1), { key: "key" }));
    for (const key of [undefined, "other"]) {
      const options = key === undefined ? {} : { key };
      expect(await at.time.of(settle(at, payment(1), options))).toMatchObject({
        success: false,
        errorReason: "invalid_transaction_state",
      });
    }
  });

  test("reads the account nonce from the chain once, then from the ledger", async () => {
    const at = await openEngine({ members: { accountNonce: async () => 7 } });
    at.chain.useNonce("");
    const transactions: string[] = [];
    at.chain.automines = false;
    for (const number of [1, 2, 3]) {
      at.chain.movedBy(nonceOf(number), `0xtheirs${number}`);
      await at.time.of(settle(at, payment(number)).catch((cause: unknown) => cause));
    }
    for (const { id } of await unfinished(at)) transactions.push(id);
    expect(transactions).toEqual(["0x7", "0x8", "0x9"]);
  });

  test("goes on when its caller has left, and tells whoever asks next", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    const first = at.time.of(faultOf(settle(at, payment(1), { key: "key", patienceMs: 1_000 })));
    expect(await first).toMatchObject({ kind: "unknown" });
    const second = settle(at, payment(1), { key: "key" });
    at.chain.mine();
    expect(await at.time.of(second)).toMatchObject({ success: true, transaction: "0x0" });
    expect(at.chain.sent).toEqual(["0x0"]);
    const amount = 'coinslot_settled_amount_total{network="base-sepolia",asset="USDC"} 0.01';
    expect(await samplesOf(at.metrics, "coinslot_settled_amount_total")).toEqual([amount]);
  });

  test("counts as settled, but for what pays another one back, whichever key has paid it", async () => {
    const at = await openEngine();
    const request = payment(1);
    const begun = { kind: "begin", request, caller: "key", route: "GET /a" } as const;
    await at.ledger.step(keyOf(request), begun);
    expect(await at.time.of(settle(at, request, { key: "key" }))).toMatchObject({ success: true });
    expect(await samplesOf(at.metrics, "coinslot_settled_amount_total")).toEqual([]);
    expect(await at.time.of(settle(at, payment(2)))).toMatchObject({ success: true });
    expect(await samplesOf(at.metrics, "coinslot_settled_amount_total")).toHaveLength(1);
  });

  test("stays for the next start when the process ends first", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    const settling = faultOf(settle(at, payment(1)));
    await at.time.until(() => at.chain.sent.length === 1);
    await at.time.of(at.facilitator.close());
    expect(await at.time.of(settling)).toMatchObject({ kind: "unknown" });
    expect((await unfinished(at)).length).toBe(1);
  });

  test("is given back when the process ends before it is signed", async () => {
    const held = Promise.withResolvers<never>();
    const at = await openEngine({
      members: {
        prepare: (_, __, signal) => {
          signal.addEventListener("abort", () => held.reject(new Error("closed")));
          return held.promise;
        },
      },
    });
    const settling = faultOf(settle(at, payment(1), { key: "key" }));
    const waiting = faultOf(settle(at, payment(2)));
    await at.time.advance(0);
    await at.time.of(at.facilitator.close());
    expect((await at.time.of(waiting)).kind).toBe("unavailable");
    expect(["unavailable", "unknown"]).toContain((await at.time.of(settling)).kind);
    for (const number of [1, 2]) {
      expect(await at.ledger.outcome(keyOf(payment(number)))).toEqual({ kind: "gone" });
    }
    expect(at.chain.sent).toEqual([]);
  });
});

const count = ({ metrics }: EngineStage, what: string) =>
  samplesOf(metrics, `coinslot_${what}_total`);

function labels(result: string, code = ""): string {
  return `{network="base-sepolia",result="${result}",code="${code}"} 1`;
}

/** What is good is counted from 0. */
function unchanged(what: string, result: string): string {
  return `coinslot_${what}_total{network="base-sepolia",result="${result}",code=""} 0`;
}

describe("the metrics", () => {
  test("count every verdict and every settlement by how it ended", async () => {
    const at = await openEngine();
    await verify(at, payment(1));
    await at.time.of(settle(at, payment(1)));
    await at.time.of(settle(at, payment(1)));
    const poor = await openEngine();
    poor.chain.refused.set(nonceOf(1), { code: "insufficient_funds", detail: "no" });
    await verify(poor, payment(1));
    const down = await openEngine();
    down.chain.errors.set("inspect", new Error("down"));
    await faultOf(verify(down, payment(1)));
    await down.time.of(faultOf(settle(down, payment(1))));
    expect(await count(at, "verifications")).toEqual([
      `coinslot_verifications_total${labels("valid")}`,
    ]);
    expect(await count(at, "settlements")).toEqual([
      `coinslot_settlements_total${labels("settled")}`,
      `coinslot_settlements_total${labels("failed", "invalid_transaction_state")}`,
    ]);
    expect(await count(poor, "verifications")).toEqual([
      unchanged("verifications", "valid"),
      `coinslot_verifications_total${labels("invalid", "insufficient_funds")}`,
    ]);
    expect(await count(down, "verifications")).toEqual([
      unchanged("verifications", "valid"),
      `coinslot_verifications_total${labels("error", "unexpected_verify_error")}`,
    ]);
    expect(await count(down, "settlements")).toEqual([
      unchanged("settlements", "settled"),
      `coinslot_settlements_total${labels("unavailable", "unexpected_settle_error")}`,
    ]);
  });
});

test("who wants a payment judged is told, until it was found good", async () => {
  const askers: (Asker | undefined)[] = [];
  const at = await openEngine({
    members: {
      inspect: async (checked, _signal, asker) => {
        askers.push(asker);
        return { ok: true, value: { ...checked, fault: null } };
      },
    },
  });
  at.chain.isFinal = true;
  const { signal } = new AbortController();
  const { facilitator, time } = at;
  await time.of(onTheWire(facilitator).settle(payment(1), { signal, client: "one" }));
  await time.of(onTheWire(facilitator).settle(payment(2), { signal }));
  await time.of(onTheWire(facilitator).verify(payment(3), signal, "three"));
  expect(askers).toEqual([
    { kind: "client", name: "one" },
    { kind: "client", name: "" },
    { kind: "client", name: "three" },
  ]);
});
