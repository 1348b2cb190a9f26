import { afterEach, describe, expect, test } from "vitest";
import { createEvmMechanism } from "../../../../src/mechanism/evm/evm.ts";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
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
  const node = await startScriptedNode(() => reply);
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
    await evm.broadcast(signed, never);
    expect(node.questions).toMatchObject([
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
    expect(node.questions[0]?.params).toEqual(["0xabc", "pending"]);
  });

  test("is asked for without them, to know which are used for good", async () => {
    const { evm, node } = await connect({ result: "0x1e" });
    expect(await evm.minedNonce("0xabc", never)).toBe(30);
    expect(node.questions).toMatchObject([
      { method: "eth_getTransactionCount", params: ["0xabc", "latest"] },
    ]);
  });

  test.each([null, "31", "0xffffffffffffffff"])("is never %j", async (result) => {
    const { evm } = await connect({ result });
    await expect(evm.minedNonce("0xabc", never)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
    await expect(evm.accountNonce("0xabc", never)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });
});
