import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
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

const FIRST_RETRY_MS = 250;
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

async function mechanism(
  rpcUrl: string,
  name: NetworkName = "base-sepolia",
  onDoubt?: () => void,
  accounts = 1,
): Promise<Mechanism> {
  const network = networkOf(name);
  if (network.kind !== "evm") throw new Error("an EVM network");
  const signers = Array.from({ length: accounts }, freshAccount);
  for (const { address } of signers) await chain.fund(address, 0n, 10n ** 18n);
  const opened = createEvmMechanism({
    network,
    assets: [network.asset],
    rpcUrls: [rpcUrl],
    keys: signers.map(({ privateKey }) => privateKey),
    onDoubt,
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
    expect([gate.isOpen("base-sepolia"), gate.closedReason("base-sepolia")]).toEqual([
      false,
      "rpc",
    ]);
    expect(await gate.probe()).toEqual([{ network: "base-sepolia", state: "open", findings: [] }]);
    expect([gate.isOpen("base-sepolia"), gate.closedReason("base-sepolia")]).toEqual([
      true,
      undefined,
    ]);
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
    expect([gate.isOpen("base-sepolia"), gate.closedReason("base-sepolia")]).toEqual([
      false,
      "chain",
    ]);
    other.lift();
    const ready = heard.said("network is ready");
    await time.advance(RETRY_MS);
    await ready;
    expect([gate.isOpen("base-sepolia"), gate.closedReason("base-sepolia")]).toEqual([
      true,
      undefined,
    ]);
  });

  test("that goes away stays proven, is doubted by one look and closed by two, each change told once", async () => {
    const time = new ManualTime();
    const heard = listening();
    const gate = openGate([await mechanism(proxy.url)], time, heard);
    await gate.probe();
    await proxy.down();
    await time.advance(RECHECK_MS);
    await vi.waitUntil(() => gate.isDoubted("base-sepolia"));
    expect(gate.closedReason("base-sepolia")).toBeUndefined();
    const away = heard.said("cannot be checked");
    await time.advance(FIRST_RETRY_MS);
    await away;
    expect(gate.isOpen("base-sepolia")).toBe(true);
    expect([gate.closedReason("base-sepolia"), gate.isDoubted("base-sepolia")]).toEqual([
      "rpc",
      false,
    ]);
    for (let looks = 0; looks < 4; looks += 1) await time.advance(RETRY_MS);
    await proxy.up();
    const ready = heard.said("network is ready");
    await time.advance(RETRY_MS);
    await ready;
    expect(gate.closedReason("base-sepolia")).toBeUndefined();
    expect(heard.lines.filter((line) => line.includes("network is closed"))).toHaveLength(1);
  });

  test("that a reload would bring closes nothing, and nobody is told that it does", async () => {
    const heard = listening();
    const gate = openGate([await mechanism(chain.rpcUrl)], systemTime, heard);
    await gate.probe();
    await proxy.down();
    const { lookout, looked } = await gate.prepare(await mechanism(proxy.url));
    await lookout.close();
    expect(looked.findings.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^base-sepolia cannot be checked: eth_chainId at [\w.:]+: \w+$/),
    ]);
    expect(gate.closedReason("base-sepolia")).toBeUndefined();
    const told = heard.lines.join("");
    expect(told).toContain("the network of the new configuration cannot be used: base-sepolia");
    expect(told).not.toContain("is closed");
    expect(told).not.toContain("payments on it wait");
  });

  test("is looked at soon when something fails there, and not more often than once a second", async () => {
    const time = new ManualTime();
    const opened = await mechanism(proxy.url);
    const gate = openGate([opened], time);
    await gate.probe();
    const asked = proxy.count("eth_chainId");
    for (let times = 0; times < 100; times += 1) gate.doubt("base-sepolia");
    expect(gate.isDoubted("base-sepolia")).toBe(true);
    await time.advance(999);
    expect(proxy.count("eth_chainId")).toBe(asked);
    await time.advance(1);
    await vi.waitUntil(() => !gate.isDoubted("base-sepolia"));
    expect(proxy.count("eth_chainId")).toBe(asked + 1);
  });

  test("hears of what fails from the endpoints, and of nobody who gave up early", async () => {
    let doubts = 0;
    const onDoubt = (): void => void (doubts += 1);
    const opened = await mechanism(proxy.url, "base-sepolia", onDoubt);
    const [account = ""] = opened.accounts;
    await opened.balance(account, patience());
    await expect(opened.balance(account, AbortSignal.abort())).rejects.toThrow();
    expect(doubts).toBe(0);
    await proxy.down();
    await expect(opened.balance(account, patience())).rejects.toThrow();
    expect(doubts).toBe(1);
  });

  test("whose account is empty signs nothing, and its chain is believed all the same", async () => {
    proxy.inject({ method: "eth_getBalance", result: "0x0" });
    const gate = openGate([await mechanism(proxy.url)]);
    const [probe] = await gate.probe();
    expect(probe).toMatchObject({ state: "wrong" });
    expect([gate.isOpen("base-sepolia"), gate.isTrusted("base-sepolia")]).toEqual([false, true]);
    expect(gate.closedReason("base-sepolia")).toBe("wallet");
  });

  test("whose account could pay for less than one settlement is closed like an empty one", async () => {
    proxy.inject({ method: "eth_getBalance", result: "0x1" });
    const gate = openGate([await mechanism(proxy.url)]);
    const [probe] = await gate.probe();
    expect(probe?.findings).toMatchObject([
      { level: "error", message: expect.stringContaining("cannot pay network fees") },
    ]);
    expect(gate.closedReason("base-sepolia")).toBe("wallet");
  });

  test("of whose accounts one is empty is open, and says so", async () => {
    const opened = await mechanism(proxy.url, "base-sepolia", undefined, 2);
    const [empty = ""] = opened.accounts;
    const isOf = ({ params }: { readonly params: readonly unknown[] }): boolean =>
      String(params[0]).toLowerCase() === empty.toLowerCase();
    proxy.inject({ method: "eth_getBalance", when: isOf, result: "0x0" });
    const gate = openGate([opened]);
    const [probe] = await gate.probe();
    expect(probe).toMatchObject({ state: "open", findings: [{ level: "warning" }] });
    expect(gate.closedReason("base-sepolia")).toBeUndefined();
  });

  test("behind the URL of another chain is wrong", async () => {
    proxy.inject({ method: "eth_chainId", result: "0x1" });
    const gate = openGate([await mechanism(proxy.url)]);
    const [probe] = await gate.probe();
    expect(probe).toMatchObject({ network: "base-sepolia", state: "wrong" });
    expect(probe?.findings.filter(({ level }) => level === "error").length).toBeGreaterThan(0);
    expect([gate.isOpen("base-sepolia"), gate.closedReason("base-sepolia")]).toEqual([
      false,
      "chain",
    ]);
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
    await time.advance(RETRY_MS);
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
    expect(gate.closedReason("base-sepolia")).toBe("chain");
  });

  test("is tried no more after the gate is closed", async () => {
    const time = new ManualTime();
    const gate = openGate([await mechanism(proxy.url)], time);
    const held = proxy.inject({ hold: true });
    const probing = gate.probe();
    await held.hit();
    await gate.close();
    expect(await probing).toMatchObject([{ state: "unreachable" }]);
    await time.advance(RETRY_MS);
    expect(gate.closedReason("base-sepolia")).toBe("rpc");
  });

  test("does not keep another one from opening", async () => {
    const nobody = "http://127.0.0.1:1";
    const gate = openGate([await mechanism(nobody, "base"), await mechanism(proxy.url)]);
    expect(await gate.probe()).toMatchObject([
      { network: "base", state: "unreachable" },
      { network: "base-sepolia", state: "open" },
    ]);
    expect([gate.closedReason("base"), gate.closedReason("base-sepolia")]).toEqual([
      "rpc",
      undefined,
    ]);
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
