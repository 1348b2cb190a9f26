/** Faults, subscriptions and the process of the local Solana node. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import {
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  devnet,
  generateKeyPairSigner,
  signature as signatureOf,
  type KeyPairSigner,
} from "@solana/kit";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { sampleTransaction, transferInstruction } from "../../support/solana/sample-transaction.ts";
import { USDC_DEVNET } from "../../support/solana/set-up.ts";
import {
  GENESIS_HASHES,
  startSolanaNode,
  type SolanaNode,
} from "../../support/solana/solana-node.ts";

const PROCESS = join(import.meta.dirname, "../../support/solana/solana-node-process.ts");
const BASE64 = { encoding: "base64", skipPreflight: true } as const;

let node: SolanaNode;
let payer: KeyPairSigner;
let payee: string;

beforeEach(async () => {
  node = await startSolanaNode({ slotMs: null });
  payer = await generateKeyPairSigner();
  payee = (await generateKeyPairSigner()).address;
  node.fundSol(payer.address, 1_000_000_000n);
  await node.fundToken({ mint: USDC_DEVNET, owner: payer.address, amount: 100n });
  await node.fundToken({ mint: USDC_DEVNET, owner: payee, amount: 0n });
});

afterEach(() => node.stop());

async function transfer(amount = 1n) {
  const instruction = await transferInstruction(node, { from: payer, to: payee, amount });
  return sampleTransaction({ node, payer, instructions: [instruction] });
}

function post(body: unknown, url = node.rpcUrl): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

async function call(method: string, params: readonly unknown[] = [], url?: string) {
  const response = await post({ jsonrpc: "2.0", id: 1, method, params }, url);
  return JSON.parse(await response.text());
}

const received = () => node.tokenBalanceOf(payee, USDC_DEVNET);

describe("calls", () => {
  test("come in batches, are counted, and unknown ones are refused", async () => {
    const questions = ["getHealth", "getNothing"].map((method, index) => {
      return { jsonrpc: "2.0", id: index + 1, method, params: [] };
    });
    const response = await post(questions);
    expect(await response.json()).toEqual([
      { jsonrpc: "2.0", id: 1, result: "ok" },
      { jsonrpc: "2.0", id: 2, error: { code: -32_601, message: "Method not found" } },
    ]);
    expect(node.calls()).toEqual({ getHealth: 1, getNothing: 1 });
    node.resetCalls();
    expect(node.count("getHealth")).toBe(0);
    expect(await call("getGenesisHash")).toMatchObject({ result: GENESIS_HASHES["solana-devnet"] });
  });

  test("with bad parameters, bad JSON or a bad type are refused", async () => {
    expect(await call("getBalance", [])).toMatchObject({ error: { code: -32_602 } });
    expect(await call("getBalance", ["x!"])).toMatchObject({ error: { code: -32_602 } });
    expect(await call("getSlot", [{ commitment: "soon" }])).toMatchObject({
      error: { code: -32_602 },
    });
    const many = Array.from({ length: 101 }, () => payee);
    expect(await call("getMultipleAccounts", [many])).toMatchObject({ error: { code: -32_602 } });
    const headers = { "content-type": "application/json" };
    const broken = await fetch(node.rpcUrl, { method: "POST", headers, body: "{" });
    expect(await broken.json()).toMatchObject({ error: { code: -32_700 } });
    expect((await fetch(node.rpcUrl, { method: "POST", body: "{}" })).status).toBe(415);
    expect((await fetch(node.rpcUrl)).status).toBe(405);
    const large = "x".repeat(50 * 1024 + 1);
    expect((await fetch(node.rpcUrl, { method: "POST", headers, body: large })).status).toBe(413);
  });
});

describe("a fault", () => {
  test("loses a transaction and answers as if all were well", async () => {
    const sent = await transfer();
    const lost = node.inject({ method: "sendTransaction", lose: true, times: 1 });
    const answer = { result: sent.signature };
    expect(await call("sendTransaction", [sent.base64, BASE64])).toMatchObject(answer);
    node.tick();
    expect(await received()).toBe(0n);
    expect(lost.hits).toBe(1);
    expect(await call("sendTransaction", [sent.base64, BASE64])).toMatchObject(answer);
    node.tick();
    expect(await received()).toBe(1n);
    expect(node.sent).toEqual([sent.base64, sent.base64]);
  });

  test("loses only the answer, by a broken connection or an HTTP error", async () => {
    const first = await transfer(1n);
    node.inject({ method: "sendTransaction", at: "answer", drop: true, times: 1 });
    await expect(call("sendTransaction", [first.base64, BASE64])).rejects.toThrow("fetch failed");
    const second = await transfer(2n);
    node.inject({ method: "sendTransaction", at: "answer", status: 504, times: 1 });
    const params = [second.base64, BASE64];
    const body = { jsonrpc: "2.0", id: 1, method: "sendTransaction", params };
    expect((await post(body)).status).toBe(504);
    node.tick();
    expect(await received()).toBe(3n);
  });

  test("keeps a question from the node", async () => {
    const sent = await transfer();
    node.inject({ method: "sendTransaction", drop: true, times: 1 });
    await expect(call("sendTransaction", [sent.base64, BASE64])).rejects.toThrow("fetch failed");
    node.tick();
    expect(await received()).toBe(0n);
  });

  test("answers with an HTTP status, nonsense, an error or a lie, for so many calls", async () => {
    const method = "getSlot";
    const question = { jsonrpc: "2.0", id: 1, method, params: [] };
    node.inject({ method, status: 429, times: 1 });
    expect((await post(question)).status).toBe(429);
    node.inject({ method, status: 200, body: "<html>", times: 1 });
    expect(await (await post(question)).text()).toBe("<html>");
    node.inject({ method, error: { code: -32_005, message: "Node is unhealthy" }, times: 1 });
    expect(await call(method)).toMatchObject({ error: { code: -32_005 } });
    node.inject({ method, result: 7, skip: 1, times: 1 });
    const truth = { result: node.slot - 32 };
    expect(await call(method)).toMatchObject(truth);
    expect(await call(method)).toMatchObject({ result: 7 });
    expect(await call(method)).toMatchObject(truth);
  });

  test("delays or holds an answer", async () => {
    const held = node.inject({ method: "getHealth", hold: true });
    const answer = call("getHealth");
    await node.asked("getHealth");
    expect(await call("getSlot")).toMatchObject({ result: expect.any(Number) });
    expect(held.hits).toBe(0);
    held.lift();
    expect(await answer).toMatchObject({ result: "ok" });
    await held.hit();
    node.inject({ method: "getHealth", delayMs: 20, times: 1 });
    const before = performance.now();
    await call("getHealth");
    expect(performance.now() - before).toBeGreaterThanOrEqual(19);
  });

  test("answers as of an older slot", async () => {
    const sent = await transfer();
    await call("sendTransaction", [sent.base64, BASE64]);
    node.tick(3);
    const processed = { commitment: "processed" };
    const lag = node.inject({ lagSlots: 3 });
    expect(await call("getSlot", [processed])).toMatchObject({ result: node.slot - 3 });
    expect(await call("getSignatureStatuses", [[sent.signature]])).toMatchObject({
      result: { context: { slot: node.slot - 3 }, value: [null] },
    });
    const account = await node.associatedTokenAccount(payee, USDC_DEVNET);
    const balance = async () => {
      const answer = await call("getTokenAccountBalance", [account, processed]);
      return answer.result.value.amount;
    };
    expect(await balance()).toBe("0");
    lag.lift();
    expect(await balance()).toBe("1");
  });

  test("stops the slots", async () => {
    node.setSlotMs(1);
    const { slot } = node;
    await expect.poll(() => node.slot).toBeGreaterThan(slot);
    node.setSlotMs(null);
    const frozen = node.slot;
    await call("getHealth");
    expect(node.slot).toBe(frozen);
  });
});

describe("the websocket", () => {
  test("tells the official client once when a signature is confirmed", async () => {
    const sent = await transfer();
    const subscriptions = createSolanaRpcSubscriptions(devnet(String(node.wsUrl)));
    const abort = new AbortController();
    const config = { commitment: "confirmed" } as const;
    const notifications = await subscriptions
      .signatureNotifications(signatureOf(sent.signature), config)
      .subscribe({ abortSignal: abort.signal });
    await call("sendTransaction", [sent.base64, BASE64]);
    node.tick();
    expect(node.subscriptions).toBe(1);
    node.tick();
    for await (const { context, value } of notifications) {
      expect(context.slot).toBe(BigInt(node.slot - 1));
      expect(value).toMatchObject({ err: null });
      break;
    }
    expect(node.subscriptions).toBe(0);
    abort.abort();
  });

  test("tells the error of a failed one at once when it is confirmed already", async () => {
    const sent = await transfer(101n);
    await call("sendTransaction", [sent.base64, BASE64]);
    node.tick(2);
    const client = await connect();
    const told = messages(client, 2);
    const params = [sent.signature, { commitment: "confirmed" }];
    client.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "signatureSubscribe", params }));
    expect(await told).toEqual([
      { jsonrpc: "2.0", id: 1, result: 1 },
      {
        jsonrpc: "2.0",
        method: "signatureNotification",
        params: {
          subscription: 1,
          result: {
            context: { apiVersion: expect.any(String), slot: node.slot - 1 },
            value: { err: { InstructionError: [0, { Custom: 1 }] } },
          },
        },
      },
    ]);
    client.terminate();
  });

  test("tells every slot", async () => {
    const client = await connect();
    const told = messages(client, 3);
    client.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "slotSubscribe", params: [] }));
    await expect.poll(() => node.subscriptions).toBe(1);
    node.tick(2);
    const { slot } = node;
    expect((await told).slice(1)).toMatchObject([
      { params: { result: { slot: slot - 1, parent: slot - 2, root: slot - 33 } } },
      { params: { result: { slot, parent: slot - 1, root: slot - 32 } } },
    ]);
    client.terminate();
  });

  test("can be silent, closed or refused, and comes back", async () => {
    const sent = await transfer();
    const client = await connect();
    node.setWebsocket("silent");
    const params = [sent.signature, { commitment: "processed" }];
    const subscribed = messages(client, 1);
    client.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "signatureSubscribe", params }));
    expect(await subscribed).toEqual([{ jsonrpc: "2.0", id: 1, result: 1 }]);
    await call("sendTransaction", [sent.base64, BASE64]);
    node.tick(2);
    expect(node.subscriptions).toBe(1);

    const closed = once(client, "close");
    node.setWebsocket("closed");
    await closed;
    await expect.poll(() => node.subscriptions).toBe(0);
    await once(await connect(), "close");
    node.setWebsocket("refused");
    await expect(connect()).rejects.toThrow("503");
    node.lift();
    (await connect()).terminate();
  });

  test("is on the next port or nowhere where a test wants it so", async () => {
    await using next = await startSolanaNode({ slotMs: null, websocket: "next-port" });
    expect(Number(new URL(String(next.wsUrl)).port)).toBe(Number(new URL(next.rpcUrl).port) + 1);
    (await connect(next.wsUrl)).terminate();
    await using none = await startSolanaNode({ slotMs: null, websocket: "none" });
    expect(none.wsUrl).toBeNull();
    await expect(connect(none.rpcUrl.replace("http", "ws"))).rejects.toThrow();
  });
});

describe("the node as a process", () => {
  test("says where it is, is driven from outside, and ends with its standard input", async () => {
    const args = [PROCESS, "--slot-ms", "none", "--network", "solana"];
    const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
    const exited = once(child, "exit");
    try {
      const [line] = await once(createInterface({ input: child.stdout }), "line");
      const { rpcUrl } = JSON.parse(String(line));
      const control = async (method: string, ...params: unknown[]) => {
        const answer = await call(method, params, rpcUrl);
        expect(answer).not.toHaveProperty("error");
        return answer.result;
      };
      expect(await control("getGenesisHash")).toBe(GENESIS_HASHES.solana);
      await control("svm_fundSol", payee, "5000000000000000000");
      expect(await control("svm_lamportsOf", payee)).toBe("5000000000000000000");
      const mint = await control("svm_createMint", { decimals: 2, program: "token-2022" });
      await control("svm_fundToken", mint, payee, "12");
      expect(await control("svm_tokenBalanceOf", payee, mint)).toBe("12");
      const id = await control("svm_inject", { method: "getSlot", result: 1, times: 1 });
      expect(await control("getSlot")).toBe(1);
      expect(await control("svm_hits", id)).toBe(1);
      const slot = await control("svm_tick", 40);
      expect(await control("getSlot", { commitment: "processed" })).toBe(slot);
      expect(await control("svm_calls")).toEqual({ getGenesisHash: 1, getSlot: 2 });
      const rpc = createSolanaRpc(devnet(rpcUrl));
      expect((await rpc.getBalance(payer.address).send()).value).toBe(0n);
    } finally {
      child.stdin.end();
    }
    expect(await exited).toEqual([0, null]);
  });
});

async function connect(url = node.wsUrl): Promise<WebSocket> {
  const client = new WebSocket(String(url));
  await once(client, "open");
  return client;
}

function messages(client: WebSocket, count: number): Promise<unknown[]> {
  const all: unknown[] = [];
  return new Promise((resolve) => {
    client.on("message", (data: Buffer) => {
      all.push(JSON.parse(data.toString("utf8")));
      if (all.length === count) resolve(all);
    });
  });
}
