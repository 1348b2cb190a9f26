import { afterEach, describe, expect, test } from "vitest";
import { Broadcast, MAX_SYNC_CALLS } from "../../../../src/mechanism/evm/broadcast.ts";
import { createEvmMechanism } from "../../../../src/mechanism/evm/evm.ts";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import { RpcEndpoints } from "../../../../src/mechanism/rpc-endpoints.ts";
import { openRpc } from "../../../../src/mechanism/rpc.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { freshAccount } from "../../../support/payer.ts";
import { startScriptedNode, type RpcReply } from "../../../support/scripted-node.ts";

const never = new AbortController().signal;
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const part of open.splice(0)) await part.close();
});

async function connect(reply: RpcReply) {
  const network = networkOf("base-sepolia");
  if (network.kind !== "evm") throw new Error("base-sepolia is an EVM network");
  const node = await startScriptedNode(({ method }) =>
    method === "eth_chainId" ? { result: "0x14a34" } : reply,
  );
  const evm = createEvmMechanism({
    network,
    assets: [network.asset],
    rpcUrls: [node.url],
    keys: [freshAccount().privateKey],
    clock: () => 0,
    allowPayTo: "any",
  });
  open.push(evm, node);
  return { evm, node };
}

const signed = { transaction: "0x01", raw: "0x02f8", account: "0x", accountNonce: 0 };

describe("broadcast", () => {
  test("sends the bytes as they are", async () => {
    const { evm, node } = await connect({ result: "0x01" });
    expect(await evm.broadcast(signed, never)).toBe("sent");
    expect(node.questions).toMatchObject([
      { method: "eth_chainId" },
      { method: "eth_sendRawTransaction", params: ["0x02f8"] },
    ]);
  });

  test.each([
    "already known",
    "AlreadyKnown",
    "ALREADY_EXISTS: already known",
    "Known transaction",
    "transaction already imported",
    "transaction already in mempool",
    "nonce too low",
    "nonce too low: next nonce 5, tx nonce 4",
    "OldNonce, Current nonce: 5, nonce of rejected tx: 4",
    "Nonce is too low",
    "nonce has already been used",
    "replacement transaction underpriced",
    "INTERNAL_ERROR: could not replace existing tx",
    "transaction already exists",
  ])("takes %j for possibly sent", async (message) => {
    const { evm } = await connect({ error: { code: -32_000, message } });
    await evm.broadcast(signed, never);
  });

  test.each([
    "insufficient funds for gas * price + value",
    "transaction underpriced",
    "intrinsic gas too low",
    "exceeds block gas limit",
    "invalid sender",
    "nonce too high",
    "max fee per gas less than block base fee",
  ])("throws on %j", async (message) => {
    const { evm } = await connect({ error: { code: -32_000, message } });
    await expect(evm.broadcast(signed, never)).rejects.toThrow(ChainError);
    await expect(evm.broadcast(signed, never)).rejects.toThrow(message);
  });
});

describe("an account nonce", () => {
  test("is asked for with pending transactions included", async () => {
    const { evm, node } = await connect({ result: "0x1f" });
    expect(await evm.accountNonce("0xabc", never)).toBe(31);
    expect(node.questions.at(-1)?.params).toEqual(["0xabc", "pending"]);
  });

  test.each([null, "31", "0xffffffffffffffff"])("is never %j", async (result) => {
    const { evm } = await connect({ result });
    await expect(evm.accountNonce("0xabc", never)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });
});

describe("an endpoint that is asked to answer only when the bytes are in a block", () => {
  const [SYNC, PLAIN] = ["eth_sendRawTransactionSync", "eth_sendRawTransaction"];
  const included: RpcReply = { result: { transactionHash: signed.transaction } };

  /** A node that answers these; `discover` is the answer to the question whether it offers the method. */
  async function sender(discover: RpcReply, answers: Readonly<Record<string, RpcReply>>) {
    const node = await startScriptedNode(({ method, params }) => {
      if (method === SYNC && params[0] === "0x") return discover;
      return answers[method] ?? { result: "0x01" };
    });
    const rpc = openRpc(node.url);
    const endpoints = new RpcEndpoints({
      rpcs: [rpc],
      identify: async () => undefined,
      readHead: async () => 0n,
      maxLagBlocks: 5n,
      clock: () => 0,
    });
    const openWaiting = () => openRpc(node.url);
    const broadcast = new Broadcast({ endpoints, openWaiting });
    open.push(broadcast, endpoints, node);
    await broadcast.discover(rpc, never);
    const methods = () => node.questions.slice(1).map(({ method }) => method);
    return { broadcast, methods, node, rpc };
  }

  const short: RpcReply = { error: { code: -32_000, message: "typed transaction too short" } };

  test("says so, in one call", async () => {
    const { broadcast, methods } = await sender(short, { [SYNC]: included });
    expect(await broadcast.send(signed, never)).toBe("included");
    expect(methods()).toEqual([SYNC]);
  });

  test("is asked once what it offers", async () => {
    const { broadcast, rpc, node } = await sender(short, {});
    await broadcast.discover(rpc, never);
    expect(node.questions).toMatchObject([{ method: SYNC, params: ["0x"] }]);
  });

  test.each([
    ["invalid parameters", { code: -32_602, message: "Empty transaction data" }, true],
    ["a transaction without bytes", { code: -32_000, message: "rlp: unexpected EOF" }, true],
    ["no such method", { code: -32_601, message: "Method not found" }, false],
    ["no such method in words", { code: -32_000, message: "unknown method" }, false],
    ["not for us", { code: -32_600, message: "method is not whitelisted" }, false],
    ["too many calls", { code: -32_005, message: "limit exceeded" }, false],
  ])("is known by its answer: %s", async (_title, error, isOffered) => {
    const { broadcast, methods } = await sender({ error }, { [SYNC]: included });
    await broadcast.send(signed, never);
    expect(methods()).toEqual([isOffered ? SYNC : PLAIN]);
  });

  test.each<[string, RpcReply]>([
    ["is not in a block in time", { error: { code: 4, message: "not processed in time" } }],
    ["is lost with the connection", { raw: (_response, request) => request.socket.destroy() }],
    ["is another transaction's receipt", { result: { transactionHash: "0x02" } }],
    ["is nothing", { result: null }],
  ])("is sent the usual way when the answer %s", async (_title, reply) => {
    const known = { error: { code: -32_000, message: "already known" } };
    const { broadcast, methods } = await sender(short, { [SYNC]: reply, [PLAIN]: known });
    expect(await broadcast.send(signed, never)).toBe("sent");
    expect(methods().at(-1)).toBe(PLAIN);
  });

  test("throws the usual refusal, and does not ask again for what is not offered after all", async () => {
    const { broadcast, methods } = await sender(short, {
      [SYNC]: { error: { code: -32_601, message: "Method not found" } },
      [PLAIN]: { error: { code: -32_000, message: "insufficient funds" } },
    });
    await expect(broadcast.send(signed, never)).rejects.toThrow("insufficient funds");
    await expect(broadcast.send(signed, never)).rejects.toThrow("insufficient funds");
    expect(methods()).toEqual([SYNC, PLAIN, PLAIN]);
  });

  test("is asked so by a limited number at once, and never in the way of other calls", async () => {
    const { broadcast, methods, rpc } = await sender(short, { [SYNC]: { raw: () => undefined } });
    const gone = new AbortController();
    const sendings = Array.from({ length: MAX_SYNC_CALLS }, () =>
      broadcast.send(signed, gone.signal),
    );
    expect(await broadcast.send(signed, never)).toBe("sent");
    expect(await rpc.call("eth_blockNumber", [], never)).toBe("0x01");
    expect(methods()).toContain(PLAIN);
    gone.abort();
    const outcomes = await Promise.allSettled(sendings);
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(["rejected"]));
  });
});
