import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
} from "vitest";
import { NetworkGate } from "../../../src/payments/settlement/network-gate.ts";
import { createEvmMechanism } from "../../../src/mechanism/evm/evm.ts";
import type { Mechanism } from "../../../src/mechanism/mechanism.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime, type Time } from "../../../src/time/time.ts";
import { networkOf, type NetworkName } from "../../../src/x402/network.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { faultOf } from "../../support/fault-of.ts";
import { ManualTime } from "../../support/manual-time.ts";
import { freshAccount } from "../../support/payer.ts";
import { startRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { newPayment, openStage, patience } from "./stage.ts";

const RETRY_MS = 5_000;
const RECHECK_MS = 30_000;

let chain: Chain;
let proxy: RpcProxy;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());
beforeEach(async () => {
  proxy = await startRpcProxy(chain.rpcUrl);
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
});

/** Telemetry whose log lines can be waited for. */
function listening() {
  const lines: string[] = [];
  const waiting: { readonly text: string; readonly heard: () => void }[] = [];
  const write = (line: string): void => {
    lines.push(line);
    for (const { text, heard } of waiting) if (line.includes(text)) heard();
  };
  const logger = createLogger({ level: "info", format: "json", destination: { write } });
  const said = (text: string) =>
    new Promise<void>((heard) => {
      waiting.push({ text, heard });
    });
  return { telemetry: { logger, metrics: new Metrics("test") }, lines, said };
}

async function mechanism(rpcUrl: string, name: NetworkName = "base-sepolia"): Promise<Mechanism> {
  const network = networkOf(name);
  if (network.kind !== "evm") throw new Error("an EVM network");
  const signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  const opened = createEvmMechanism({
    network,
    assets: [network.asset],
    rpcUrls: [rpcUrl],
    keys: [signer.privateKey],
    clock: () => Math.floor(Date.now() / 1000),
    allowPayTo: "any",
  });
  onTestFinished(() => opened.close());
  return opened;
}

function openGate(
  mechanisms: readonly Mechanism[],
  time: Time = systemTime,
  { telemetry } = listening(),
): NetworkGate {
  const gate = new NetworkGate(mechanisms, telemetry, time);
  onTestFinished(() => gate.close());
  return gate;
}

describe("a network", () => {
  test("is closed until its checks have passed", async () => {
    const gate = openGate([await mechanism(proxy.url)]);
    expect([gate.isOpen("base-sepolia"), gate.closed()]).toEqual([false, ["base-sepolia"]]);
    expect(await gate.probe()).toEqual([{ network: "base-sepolia", state: "open", findings: [] }]);
    expect([gate.isOpen("base-sepolia"), gate.closed()]).toEqual([true, []]);
    expect([gate.isOpen("base"), gate.isOpen("")]).toEqual([false, false]);
  });

  test("is checked again while it is open, and closed when it turns out another chain", async () => {
    const time = new ManualTime();
    const heard = listening();
    const gate = openGate([await mechanism(proxy.url)], time, heard);
    await gate.probe();
    const other = proxy.inject({ method: "eth_chainId", result: "0x1" });
    const error = heard.said('"level":"error"');
    await time.advance(RECHECK_MS);
    await error;
    expect([gate.isOpen("base-sepolia"), gate.closed()]).toEqual([false, ["base-sepolia"]]);
    other.lift();
    const ready = heard.said("network is ready");
    await time.advance(RETRY_MS);
    await ready;
    expect([gate.isOpen("base-sepolia"), gate.closed()]).toEqual([true, []]);
  });

  test("that goes away stays proven, and makes the process unready until it is back", async () => {
    const time = new ManualTime();
    const heard = listening();
    const gate = openGate([await mechanism(proxy.url)], time, heard);
    await gate.probe();
    await proxy.down();
    const away = heard.said("cannot be checked");
    await time.advance(RECHECK_MS);
    await away;
    expect([gate.isOpen("base-sepolia"), gate.closed()]).toEqual([true, ["base-sepolia"]]);
  });

  test("whose account is empty signs nothing, and its chain is believed all the same", async () => {
    proxy.inject({ method: "eth_getBalance", result: "0x0" });
    const gate = openGate([await mechanism(proxy.url)]);
    const [probe] = await gate.probe();
    expect(probe).toMatchObject({ state: "wrong" });
    expect([gate.isOpen("base-sepolia"), gate.isTrusted("base-sepolia")]).toEqual([false, true]);
  });

  test("behind the URL of another chain is wrong", async () => {
    proxy.inject({ method: "eth_chainId", result: "0x1" });
    const gate = openGate([await mechanism(proxy.url)]);
    const [probe] = await gate.probe();
    expect(probe).toMatchObject({ network: "base-sepolia", state: "wrong" });
    expect(probe?.findings.filter(({ level }) => level === "error").length).toBeGreaterThan(0);
    expect([gate.isOpen("base-sepolia"), gate.closed()]).toEqual([false, ["base-sepolia"]]);
    expect(gate.isTrusted("base-sepolia")).toBe(false);
  });

  test("that cannot be reached opens by itself when it can", async () => {
    const time = new ManualTime();
    const { telemetry, lines, said } = listening();
    const gate = openGate([await mechanism(proxy.url)], time, { telemetry, lines, said });
    await proxy.down();
    const [probe] = await gate.probe();
    expect(probe).toMatchObject({ state: "unreachable" });
    expect(probe?.findings).toMatchObject([
      { level: "warning", message: expect.stringContaining("base-sepolia cannot be checked") },
    ]);
    // Still down at the first try, up at the second.
    const stillDown = said("cannot be checked");
    await time.advance(RETRY_MS);
    await stillDown;
    await proxy.up();
    const ready = said("network is ready");
    await time.advance(RETRY_MS);
    await ready;
    expect(gate.isOpen("base-sepolia")).toBe(true);
  });

  test("that turns out wrong when it can be reached is logged as an error", async () => {
    const time = new ManualTime();
    const heard = listening();
    const gate = openGate([await mechanism(proxy.url)], time, heard);
    await proxy.down();
    await gate.probe();
    await proxy.up();
    proxy.inject({ method: "eth_chainId", result: "0x1" });
    const error = heard.said('"level":"error"');
    await time.advance(RETRY_MS);
    await error;
    expect(gate.closed()).toEqual(["base-sepolia"]);
  });

  test("is tried no more after the gate is closed", async () => {
    const time = new ManualTime();
    const gate = openGate([await mechanism(proxy.url)], time);
    const held = proxy.inject({ hold: true });
    const probing = gate.probe();
    await held.hit();
    gate.close();
    expect(await probing).toMatchObject([{ state: "unreachable" }]);
    await time.advance(RETRY_MS);
    expect(gate.closed()).toEqual(["base-sepolia"]);
  });

  test("does not keep another one from opening", async () => {
    const nobody = "http://127.0.0.1:1";
    const gate = openGate([await mechanism(nobody, "base"), await mechanism(proxy.url)]);
    expect(await gate.probe()).toMatchObject([
      { network: "base", state: "unreachable" },
      { network: "base-sepolia", state: "open" },
    ]);
    expect(gate.closed()).toEqual(["base"]);
  });
});

describe("a facilitator before the wrong chain", () => {
  test("signs nothing and judges nothing by it", async () => {
    const pretender = await startChain({ chainId: 1337 });
    onTestFinished(() => pretender.stop());
    await using stage = await openStage({ chain: pretender });
    expect(stage.inner.probes).toMatchObject([{ state: "wrong" }]);
    const payment = await newPayment(pretender, { funds: 20_000n });
    const verdict = stage.facilitator.verify(payment.request, patience());
    expect(await faultOf(verdict)).toMatchObject({ kind: "unavailable" });
    for (const key of [{}, { idempotencyKey: "key" }]) {
      const settling = stage.facilitator.settle(payment.request, {
        signal: patience(),
        ...key,
      });
      expect(await faultOf(settling)).toMatchObject({ kind: "unavailable" });
    }
    expect(stage.proxy.count("eth_sendRawTransaction")).toBe(0);
    expect(await stage.inner.unfinished()).toEqual([]);
    // What needs no chain is judged all the same.
    const late = await newPayment(pretender, { overrides: { validBefore: "1" } });
    expect(await stage.facilitator.verify(late.request, patience())).toMatchObject({
      isValid: false,
      invalidReason: "invalid_exact_evm_payload_authorization_valid_before",
    });
  });
});
