import { describe, expect, onTestFinished, test } from "vitest";
import { EmbeddedFacilitator } from "../../../src/facilitator/embedded.ts";
import { LedgerUnavailable, type Ledger } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite.ts";
import { createEvmMechanism } from "../../../src/mechanism/evm/evm.ts";
import { ChainError, type Confirmation, type Mechanism } from "../../../src/mechanism/mechanism.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { NETWORK_NAMES, networkOf } from "../../../src/x402/network.ts";
import { isEvmPayload } from "../../../src/x402/payment-key.ts";
import { refuse } from "../../../src/x402/result.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { faultOf } from "../../support/fault-of.ts";
import { exampleRequest, PAYER } from "./example-request.ts";
import { samplesOf } from "./remote-stage.ts";
import { scriptMechanism } from "./scripted-mechanism.ts";

const VERIFIED_FOR_MS = 5_000;

interface Stage {
  readonly facilitator: EmbeddedFacilitator;
  readonly ledger: Ledger;
  readonly metrics: Metrics;
}

interface StageOptions {
  /** Methods of the ledger that do something else. */
  readonly ledger?: Partial<Ledger>;
  readonly clock?: () => number;
}

/** The facilitator with a real ledger over a chain that is told what to do. */
async function stage(
  mechanisms: Mechanism | readonly Mechanism[],
  { ledger: instead = {}, clock = Date.now }: StageOptions = {},
): Promise<Stage> {
  const real = await openSqliteLedger({ path: ":memory:", clock, bootId: "boot" });
  onTestFinished(() => real.close());
  const metrics = new Metrics("test");
  const facilitator = new EmbeddedFacilitator({
    mechanisms: [mechanisms].flat(),
    ledger: overriding(real, instead),
    gate: { isOpen: () => true },
    telemetry: { logger: createLogger({ level: "silent", format: "json" }), metrics },
    clock,
    describeAsset: () => ({ symbol: "USDC", decimals: 6 }),
  });
  onTestFinished(() => facilitator.close());
  return { facilitator, ledger: real, metrics };
}

/** The real ledger with some methods replaced. */
function overriding(real: Ledger, instead: Partial<Ledger>): Ledger {
  return new Proxy(real, {
    get(target, name) {
      const method: unknown = Reflect.get(name in instead ? instead : target, name);
      return typeof method === "function" ? method.bind(target) : method;
    },
  });
}

/** A payment like the example, with a nonce of its own. */
function payment(number: number): FacilitatorRequest {
  const { paymentPayload, paymentRequirements } = exampleRequest;
  const { payload } = paymentPayload;
  if (!isEvmPayload(payload)) throw new Error("an EVM payment");
  const nonce = `0x${String(number).padStart(64, "0")}`;
  const authorization = { ...payload.authorization, nonce };
  return {
    paymentPayload: { ...paymentPayload, payload: { ...payload, authorization } },
    paymentRequirements,
  };
}

const soon = (): AbortSignal => AbortSignal.timeout(10_000);
const settle = ({ facilitator }: Stage, request: FacilitatorRequest, idempotencyKey?: string) =>
  facilitator.settle(request, {
    signal: soon(),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  });
const unavailable = () => Promise.reject(new LedgerUnavailable("disk full"));

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
    const { facilitator } = await stage(mechanisms);
    const { kinds } = await facilitator.supported();
    expect(kinds.every(({ x402Version, scheme }) => x402Version === 1 && scheme === "exact")).toBe(
      true,
    );
    const named = ["base-sepolia", "base", "avalanche-fuji", "avalanche", "iotex"];
    const others = ["peaq", "polygon", "polygon-amoy", "sei", "sei-testnet"];
    expect(kinds.map(({ network }) => network)).toEqual([...named, ...others]);
    expect([...facilitator.networks].sort()).toEqual(kinds.map(({ network }) => network).sort());
  });
});

describe("the local check", () => {
  const fault = { code: "invalid_exact_evm_payload_authorization_value", detail: "less" } as const;
  const checked = { authorization: "payment", payer: PAYER } as const;

  test.each<[string, boolean, typeof fault | null, boolean]>([
    ["lets a good payment pass", true, null, false],
    ["refuses a certain fault", true, fault, true],
    ["leaves a signature that it cannot prove to the chain", false, null, false],
    ["leaves a fault behind such a signature to the chain", false, fault, false],
  ])("%s", async (_, proven, found, isRefused) => {
    const check = () => ({ ok: true, value: { ...checked, proven, fault: found } }) as const;
    const mechanism = scriptMechanism({ check });
    const { facilitator, ledger } = await stage(mechanism);
    const verdict = facilitator.precheck(exampleRequest);
    const refusal = { isValid: false, invalidReason: fault.code, payer: PAYER, detail: "less" };
    expect(verdict).toEqual(isRefused ? refusal : undefined);
    expect(mechanism.calls).toEqual([]);
    if (!isRefused) return;
    const answer = await facilitator.settle(exampleRequest, { signal: soon() });
    expect(answer).toMatchObject({ success: false, errorReason: fault.code });
    expect(mechanism.calls).toEqual([]);
    expect(await ledger.unfinished()).toEqual([]);
  });
});

describe("a verification", () => {
  test("stands in for the settlement's own for five seconds, for that very request", async () => {
    let now = 1_700_000_000_000;
    const mechanism = scriptMechanism();
    const at = await stage(mechanism, { clock: () => now });
    const [quick, slow, copied] = [payment(1), payment(2), payment(3)];
    for (const request of [quick, slow, copied]) await at.facilitator.verify(request, soon());
    expect(mechanism.count("inspect")).toBe(3);
    now += VERIFIED_FOR_MS - 1;
    await settle(at, quick);
    expect(mechanism.count("inspect")).toBe(3);
    await settle(at, { ...copied });
    expect(mechanism.count("inspect")).toBe(4);
    now += 1;
    await settle(at, slow);
    expect(mechanism.count("inspect")).toBe(5);
  });

  test("that was a refusal stands in for nothing", async () => {
    const refusal = refuse("insufficient_funds", "no");
    const mechanism = scriptMechanism({ inspect: async () => refusal });
    const at = await stage(mechanism);
    const request = payment(1);
    await at.facilitator.verify(request, soon());
    expect(await settle(at, request)).toMatchObject({ errorReason: "insufficient_funds" });
    expect(mechanism.calls).toEqual(["inspect", "inspect"]);
  });
});

describe("a settlement that cannot be begun", () => {
  const fee = new ChainError("CHAIN_FEE", "the fee is above our cap");

  test.each([
    ["the chain cannot be read", "inspect"],
    ["the fee is too high", "prepare"],
    ["the account nonce cannot be read", "accountNonce"],
  ])("because %s leaves no claim behind", async (_, failing) => {
    let broken = true;
    const failAt = (step: string): void => {
      if (broken && step === failing) throw fee;
    };
    const good = scriptMechanism();
    const mechanism = scriptMechanism({
      async inspect(...all) {
        failAt("inspect");
        return good.inspect(...all);
      },
      async prepare(...all) {
        failAt("prepare");
        return good.prepare(...all);
      },
      async accountNonce(...all) {
        failAt("accountNonce");
        return good.accountNonce(...all);
      },
    });
    const at = await stage(mechanism);
    const fault = await faultOf(settle(at, payment(1), "key"));
    expect(fault).toMatchObject({
      kind: "unavailable",
      code: "unexpected_settle_error",
      cause: fee,
    });
    expect(mechanism.count("broadcast")).toBe(0);
    broken = false;
    // The claim is gone, so another caller may settle; the account nonce was not used up.
    expect(await settle(at, payment(1))).toMatchObject({ success: true, transaction: "0x0" });
  });

  test("because the ledger takes no claim is charged to nobody", async () => {
    const mechanism = scriptMechanism();
    const at = await stage(mechanism, { ledger: { begin: unavailable } });
    expect(await faultOf(settle(at, payment(1)))).toMatchObject({ kind: "unavailable" });
    expect(mechanism.calls).toEqual([]);
  });
});

describe("a settlement that the ledger does not answer for", () => {
  test("when the bytes were to be stored is unknown, and nothing is sent", async () => {
    const mechanism = scriptMechanism();
    const at = await stage(mechanism, { ledger: { signed: unavailable } });
    const fault = await faultOf(settle(at, payment(1), "key"));
    expect(fault).toMatchObject({ kind: "unknown", code: "unexpected_settle_error" });
    expect(mechanism.count("broadcast")).toBe(0);
  });

  test("when the result was to be stored is unknown until it can be", async () => {
    let broken = true;
    const mechanism = scriptMechanism();
    const at: Stage = await stage(mechanism, {
      ledger: { settled: (...all) => (broken ? unavailable() : at.ledger.settled(...all)) },
    });
    expect(await faultOf(settle(at, payment(1), "key"))).toMatchObject({ kind: "unknown" });
    expect((await at.ledger.unfinished()).length).toBe(1);
    broken = false;
    expect(await settle(at, payment(1), "key")).toMatchObject({
      success: true,
      transaction: "0x0",
    });
    expect(mechanism.count("prepare")).toBe(1);
  });
});

describe("a settlement", () => {
  test("reads the account nonce from the chain once, then from the ledger", async () => {
    const mechanism = scriptMechanism({ accountNonce: async () => 7 });
    const at = await stage(mechanism);
    const transactions: string[] = [];
    for (const number of [1, 2, 3]) {
      transactions.push((await settle(at, payment(number))).transaction);
    }
    expect(transactions).toEqual(["0x7", "0x8", "0x9"]);
    expect(mechanism.count("accountNonce")).toBe(1);
  });

  test("is watched once for all who wait, and longer than the first of them does", async () => {
    const confirmed = Promise.withResolvers<Confirmation>();
    const watched = Promise.withResolvers<void>();
    const confirm = (): Promise<Confirmation> => {
      watched.resolve();
      return confirmed.promise;
    };
    const mechanism = scriptMechanism({ confirm });
    const at = await stage(mechanism);
    const caller = new AbortController();
    const options = { signal: caller.signal, idempotencyKey: "key" };
    const first = faultOf(at.facilitator.settle(payment(1), options));
    await watched.promise;
    caller.abort();
    expect(await first).toMatchObject({ kind: "unknown" });
    const second = settle(at, payment(1), "key");
    const recovery = at.facilitator.recover();
    confirmed.resolve({ kind: "confirmed", transaction: "0x0" });
    expect(await second).toMatchObject({ success: true, transaction: "0x0" });
    expect(await recovery).toBe(0);
    expect([mechanism.count("broadcast"), mechanism.count("confirm")]).toEqual([1, 1]);
    const amount = 'coinslot_settled_amount_total{network="base-sepolia",asset="USDC"} 0.01';
    expect(await samplesOf(at.metrics, "coinslot_settled_amount_total")).toEqual([amount]);
  });

  test("whose bytes the node does not take is sent again until its fate is known", async () => {
    const enough = Promise.withResolvers<Confirmation>();
    let refusals = 0;
    const mechanism = scriptMechanism({
      async broadcast() {
        refusals += 1;
        if (refusals === 3) enough.resolve({ kind: "confirmed", transaction: "0xtheirs" });
        throw new ChainError("CHAIN_ANSWER", "status 503");
      },
      confirm: () => enough.promise,
    });
    const at = await stage(mechanism);
    expect(await settle(at, payment(1))).toMatchObject({ success: true, transaction: "0xtheirs" });
    expect(mechanism.count("broadcast")).toBe(3);
  });

  test("stays for the next start when the process ends first", async () => {
    const watched = Promise.withResolvers<void>();
    const mechanism = scriptMechanism({
      confirm(_, __, signal) {
        watched.resolve();
        return new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve({ kind: "unknown", detail: "closed" }));
        });
      },
    });
    const at = await stage(mechanism);
    const settling = faultOf(settle(at, payment(1)));
    await watched.promise;
    await at.facilitator.close();
    expect(await settling).toMatchObject({ kind: "unknown" });
    expect((await at.ledger.unfinished()).length).toBe(1);
  });
});

function count({ metrics }: Stage, what: string): Promise<readonly string[]> {
  return samplesOf(metrics, `coinslot_${what}_total`);
}

function labels(result: string, code = ""): string {
  return `{network="base-sepolia",result="${result}",code="${code}"} 1`;
}

describe("the metrics", () => {
  test("count every verdict and every settlement by how it ended", async () => {
    const funds = refuse("insufficient_funds", "no");
    const at = await stage(scriptMechanism());
    await at.facilitator.verify(payment(1), soon());
    await settle(at, payment(1));
    await settle(at, payment(1));
    const poor = await stage(scriptMechanism({ inspect: async () => funds }));
    await poor.facilitator.verify(payment(1), soon());
    const down = await stage(scriptMechanism({ inspect: () => Promise.reject(new Error("down")) }));
    await faultOf(down.facilitator.verify(payment(1), soon()));
    await faultOf(settle(down, payment(1)));
    expect(await count(at, "verifications")).toEqual([
      `coinslot_verifications_total${labels("valid")}`,
    ]);
    expect(await count(at, "settlements")).toEqual([
      `coinslot_settlements_total${labels("settled")}`,
      `coinslot_settlements_total${labels("failed", "invalid_transaction_state")}`,
    ]);
    expect(await count(poor, "verifications")).toEqual([
      `coinslot_verifications_total${labels("invalid", "insufficient_funds")}`,
    ]);
    expect(await count(down, "verifications")).toEqual([
      `coinslot_verifications_total${labels("error", "unexpected_verify_error")}`,
    ]);
    expect(await count(down, "settlements")).toEqual([
      `coinslot_settlements_total${labels("unavailable", "unexpected_settle_error")}`,
    ]);
  });
});
