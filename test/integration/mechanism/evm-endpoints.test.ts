import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { startRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import {
  accept,
  confirm,
  draftOf,
  lookAt,
  never,
  openMechanism,
  payFor,
  signDraft,
  soon,
  submissionOf,
  unixNow,
  type EvmMechanism,
} from "./settling.ts";

let chain: Chain;
let signer: FreshAccount;
let payee: FreshAccount;
let proxies: [RpcProxy, RpcProxy, RpcProxy];
let health: string[];
let offsetSeconds: number;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());
beforeEach(async () => {
  [signer, payee] = [freshAccount(), freshAccount()];
  await chain.fund(signer.address, 0n, 10n ** 19n);
  const proxy = async () => {
    const opened = await startRpcProxy(chain.rpcUrl);
    onTestFinished(() => opened[Symbol.asyncDispose]());
    return opened;
  };
  proxies = [await proxy(), await proxy(), await proxy()];
  health = [];
  offsetSeconds = 0;
});

function open(...rpcUrls: readonly string[]): EvmMechanism {
  return openMechanism(chain, signer.privateKey, {
    rpcUrls: rpcUrls.length > 0 ? rpcUrls : proxies.map(({ url }) => url),
    clock: () => unixNow() + offsetSeconds,
    onHealth: (host, isHealthy) => health.push(`${nameOf(host)} ${isHealthy ? "up" : "down"}`),
  });
}

function nameOf(host: string): string {
  const index = proxies.findIndex(({ url }) => new URL(url).host === host);
  return ["first", "second", "third"][index] ?? "none of ours";
}

async function newPayment(evm: EvmMechanism) {
  const payer = freshAccount();
  await chain.fund(payer.address, 10_000n);
  return accept(evm, { account: payer.account, requirements: payFor(payee) });
}

/** A whole payment, from the verification to the chain's word. */
async function pay(evm: EvmMechanism) {
  const payment = await newPayment(evm);
  const inspected = await evm.inspect(payment, never);
  if (!inspected.ok) throw new Error(inspected.error.detail);
  const signed = await signDraft(evm, payment);
  await evm.broadcast(signed, never);
  return confirm(evm, payment, signed, soon());
}

/** What an endpoint was asked, beside what is asked of all of them. */
function work({ questions }: RpcProxy): readonly string[] {
  const ofAll = new Set(["eth_chainId", "eth_blockNumber", "eth_sendRawTransaction"]);
  const methods = questions.map(({ method }) => method);
  return methods.filter((method) => !ofAll.has(method) && !method.endsWith("Sync"));
}

describe("of three endpoints", () => {
  test("the first does the work as long as it can", async () => {
    const evm = open();
    await evm.probe(never);
    expect(await pay(evm)).toMatchObject({ kind: "confirmed" });
    const [first, second, third] = proxies;
    expect(work(first)).toEqual(expect.arrayContaining(["eth_call", "eth_getTransactionReceipt"]));
    expect([work(second), work(third)]).toEqual([[], []]);
    expect(health).toEqual(expect.arrayContaining(["first up", "second up", "third up"]));
  });

  test.each<[string, (proxy: RpcProxy) => void]>([
    ["is gone", (proxy) => void proxy.inject({ drop: true })],
    ["is overloaded", (proxy) => void proxy.inject({ status: 429 })],
    [
      "is at its limit",
      (proxy) => void proxy.inject({ error: { code: -32_005, message: "daily limit reached" } }),
    ],
    ["answers nonsense", (proxy) => void proxy.inject({ status: 200, body: "<html>" })],
  ])("the next takes over when the first %s, at every step", async (_title, harm) => {
    const evm = open();
    await evm.probe(never);
    const payment = await newPayment(evm);
    harm(proxies[0]);
    expect(await evm.inspect(payment, never)).toMatchObject({ ok: true });
    const signed = await signDraft(evm, payment);
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
    expect(health).toContain("first down");
    expect(work(proxies[1])).toContain("eth_getTransactionReceipt");
    expect(work(proxies[2])).toEqual([]);
  });

  test("one that fails in the midst of an operation leaves nothing of it behind", async () => {
    const evm = open();
    await evm.probe(never);
    const payments = [await newPayment(evm), await newPayment(evm)];
    // Simulated there, but the balance cannot be read.
    const broken = proxies[0].inject({ method: "eth_getBalance", drop: true });
    await draftOf(evm, payments);
    expect(broken.hits).toBeGreaterThan(0);
    expect(work(proxies[0])).toContain("eth_call");
    expect(work(proxies[1]).filter((method) => method === "eth_call")).toHaveLength(2);
  });

  test("one that hangs is left after its time is up, and asked again when it is back", async () => {
    const evm = openMechanism(chain, signer.privateKey, {
      rpcUrls: proxies.map(({ url }) => url),
      rpcTimeoutMs: 200,
      clock: () => unixNow() + offsetSeconds,
    });
    await evm.probe(never);
    const held = proxies[0].inject({ hold: true });
    expect(await pay(evm)).toMatchObject({ kind: "confirmed" });
    held.lift();
    const before = proxies[0].count("eth_blockNumber");
    offsetSeconds += 90;
    // This operation starts the check; a later one finds the endpoint well.
    await evm.accountNonce(signer.address, never);
    await proxies[0].asked("eth_blockNumber", before + 1);
    const asked = proxies[0].count("eth_getTransactionCount");
    await expect
      .poll(async () => {
        await evm.accountNonce(signer.address, never);
        return proxies[0].count("eth_getTransactionCount");
      })
      .toBeGreaterThan(asked);
  });

  test("a stale one is not used while there is a fresher one", async () => {
    await chain.mine(20);
    const stale = await chain.rpc("eth_blockNumber");
    const behind = proxies[0].inject({
      method: "eth_blockNumber",
      result: `0x${(Number(stale) - 6).toString(16)}`,
    });
    const evm = open();
    await evm.probe(never);
    expect(await pay(evm)).toMatchObject({ kind: "confirmed" });
    expect(work(proxies[0])).not.toContain("eth_getTransactionReceipt");
    expect(health).toContain("first down");
    behind.lift();
    await evm.probe(never);
    expect(await pay(evm)).toMatchObject({ kind: "confirmed" });
    expect(work(proxies[0])).toContain("eth_getTransactionReceipt");
  });

  test("one that lies cannot end a payment alone: another is asked about a failure", async () => {
    const evm = open();
    await evm.probe(never);
    const payment = await newPayment(evm);
    const signed = await signDraft(evm, payment);
    await evm.broadcast(signed, never);
    await expect.poll(() => lookAt(evm, payment, signed)).toMatchObject({ kind: "confirmed" });
    // A revert that never was, and a nonce that is unused.
    proxies[0].inject({
      method: "eth_getTransactionReceipt",
      rewrite: (result) => ({ ...Object(result), status: "0x0", logs: [] }),
    });
    proxies[0].inject({ method: "eth_call", result: `0x${"0".repeat(64)}` });
    const submission = submissionOf(payment, signed);
    const kinds: (string | undefined)[] = [];
    for (let index = 0; index < 4; index += 1) {
      const { payments } = await evm.look(submission, soon());
      kinds.push(payments[0]?.kind);
    }
    expect(kinds).toEqual(["failed", "confirmed", "failed", "confirmed"]);
  });

  test("one that lags behind errs about a block rather than lies about it", async () => {
    const evm = open(proxies[0].url);
    const payment = await newPayment(evm);
    const signed = await signDraft(evm, payment);
    await chain.setBlacklisted(payment.payer as `0x${string}`, true);
    await evm.broadcast(signed, never);
    await expect
      .poll(() => chain.rpc("eth_getTransactionReceipt", [signed.transaction]))
      .not.toBeNull();
    // The receipt from one node behind the URL, the state from another that lacks the block.
    proxies[0].inject({
      method: "eth_call",
      when: ({ params }) => params[1] !== "latest" && params[1] !== "pending",
      error: { code: -32_000, message: "header not found" },
    });
    await expect(lookAt(evm, payment, signed)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });
});

describe("an endpoint of another chain", () => {
  test("is left out, and told; the network stays open with the right one", async () => {
    const other = await startChain({ chainId: 31_337 });
    onTestFinished(() => other.stop());
    const evm = open(other.rpcUrl, proxies[0].url);
    const { host } = new URL(other.rpcUrl);
    expect(await evm.probe(never)).toEqual([
      {
        level: "warning",
        message:
          `${host} serves chain 31337, but base-sepolia is chain 84532; ` +
          "that endpoint is not used",
      },
    ]);
    const before = await other.rpc("eth_blockNumber");
    expect(await pay(evm)).toMatchObject({ kind: "confirmed" });
    expect(await other.rpc("eth_blockNumber")).toBe(before);
    expect(work(proxies[0])).toContain("eth_call");
  });

  test("closes the network when there is no other", async () => {
    const other = await startChain({ chainId: 31_337 });
    onTestFinished(() => other.stop());
    const evm = open(other.rpcUrl, other.rpcUrl.replace("127.0.0.1", "localhost"));
    const findings = await evm.probe(never);
    expect(findings.map(({ level }) => level)).toEqual(["error", "error"]);
    const payment = await newPayment(evm);
    await expect(evm.inspect(payment, never)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
    await expect(
      evm.broadcast({ transaction: "0x", raw: "0x", account: "", accountNonce: 0 }, never),
    ).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });

  test("is found before its first use, also when it could not be asked at the start", async () => {
    const other = await startChain({ chainId: 31_337 });
    onTestFinished(() => other.stop());
    const hidden = await startRpcProxy(other.rpcUrl);
    onTestFinished(() => hidden[Symbol.asyncDispose]());
    await hidden.down();
    const evm = open(hidden.url, proxies[0].url);
    const [finding] = await evm.probe(never);
    expect(finding).toMatchObject({
      level: "warning",
      message: expect.stringContaining("that endpoint is not used until it answers"),
    });
    await hidden.up();
    offsetSeconds += 90;
    expect(await pay(evm)).toMatchObject({ kind: "confirmed" });
    await hidden.asked("eth_chainId", 1);
    expect(new Set(hidden.questions.map(({ method }) => method))).toEqual(new Set(["eth_chainId"]));
  });
});
