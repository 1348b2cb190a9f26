/** The local Solana node behaves as a validator does, seen through the official client library. */
import {
  createSolanaRpc,
  devnet,
  generateKeyPairSigner,
  type Blockhash,
  type Commitment,
  type KeyPairSigner,
  type Rpc,
  type SolanaRpcApiDevnet,
} from "@solana/kit";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  sampleTransaction,
  transferInstruction,
  type SampleOptions,
} from "../../support/solana/sample-transaction.ts";
import { USDC_DEVNET } from "../../support/solana/set-up.ts";
import { startSolanaNode, type SolanaNode } from "../../support/solana/solana-node.ts";

const SOL = 1_000_000_000n;
const FEE = 5_000n;
const BASE64 = { encoding: "base64", preflightCommitment: "processed" } as const;

let node: SolanaNode;
let rpc: Rpc<SolanaRpcApiDevnet>;
let payer: KeyPairSigner;
let payee: KeyPairSigner;

beforeEach(async () => {
  node = await startSolanaNode({ slotMs: null });
  rpc = createSolanaRpc(devnet(node.rpcUrl));
  [payer, payee] = await Promise.all([generateKeyPairSigner(), generateKeyPairSigner()]);
  node.fundSol(payer.address, SOL);
  await node.fundToken({ mint: USDC_DEVNET, owner: payer.address, amount: 100n });
  await node.fundToken({ mint: USDC_DEVNET, owner: payee.address, amount: 0n });
});

afterEach(() => node.stop());

async function transfer(amount: bigint, more: Partial<SampleOptions> = {}) {
  const instruction = await transferInstruction(node, { from: payer, to: payee.address, amount });
  return sampleTransaction({ node, payer, instructions: [instruction], ...more });
}

async function call(method: string, params: readonly unknown[]): Promise<unknown> {
  const response = await fetch(node.rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  return response.json();
}

async function statusOf(signature: Parameters<typeof rpc.getSignatureStatuses>[0][number]) {
  const { value } = await rpc.getSignatureStatuses([signature]).send();
  return value[0];
}

describe("a transaction", () => {
  test("goes from processed to confirmed to finalized", async () => {
    const sent = await transfer(40n);
    expect(await rpc.sendTransaction(sent.base64, BASE64).send()).toBe(sent.signature);
    expect(await statusOf(sent.signature)).toBeNull();
    const slot = BigInt(node.slot + 1);

    node.tick();
    const processed = { slot, err: null, confirmationStatus: "processed", confirmations: 0n };
    expect(await statusOf(sent.signature)).toMatchObject(processed);
    node.tick();
    const confirmed = { slot, confirmationStatus: "confirmed", confirmations: 1n };
    expect(await statusOf(sent.signature)).toMatchObject(confirmed);
    node.tick(30);
    expect(await statusOf(sent.signature)).toMatchObject({ confirmationStatus: "confirmed" });
    node.tick();
    const finalized = { slot, confirmationStatus: "finalized", confirmations: null };
    expect(await statusOf(sent.signature)).toMatchObject(finalized);
    expect(await node.tokenBalanceOf(payee.address, USDC_DEVNET)).toBe(40n);
    expect(node.lamportsOf(payer.address)).toBe(SOL - FEE);
  });

  test("is visible to reads from the commitment on that they ask for", async () => {
    const sent = await transfer(40n);
    await rpc.sendTransaction(sent.base64, BASE64).send();
    node.tick();
    const account = await node.associatedTokenAccount(payee.address, USDC_DEVNET);
    const balance = async (commitment: "processed" | "confirmed" | "finalized") => {
      const { value, context } = await rpc.getTokenAccountBalance(account, { commitment }).send();
      return [value.amount, Number(context.slot)];
    };
    expect(await balance("processed")).toEqual(["40", node.slot]);
    expect(await balance("confirmed")).toEqual(["0", node.slot - 1]);
    expect(await balance("finalized")).toEqual(["0", node.slot - 32]);
    node.tick();
    expect(await balance("confirmed")).toEqual(["40", node.slot - 1]);
  });

  test("is processed once, however often it is sent", async () => {
    const sent = await transfer(40n);
    await rpc.sendTransaction(sent.base64, BASE64).send();
    await rpc.sendTransaction(sent.base64, BASE64).send();
    node.tick();
    const again = await call("sendTransaction", [sent.base64, BASE64]);
    expect(again).toMatchObject({
      error: {
        code: -32_002,
        message: "Transaction simulation failed: This transaction has already been processed",
        data: { err: "AlreadyProcessed" },
      },
    });
    await rpc.sendTransaction(sent.base64, { encoding: "base64", skipPreflight: true }).send();
    node.tick();
    expect(await node.tokenBalanceOf(payee.address, USDC_DEVNET)).toBe(40n);
    expect(node.lamportsOf(payer.address)).toBe(SOL - FEE);
  });

  test("that fails in its block costs its fee and keeps its error", async () => {
    const sent = await transfer(101n);
    await rpc.sendTransaction(sent.base64, { encoding: "base64", skipPreflight: true }).send();
    node.tick();
    const err = { InstructionError: [0, { Custom: 1 }] };
    expect(await call("getSignatureStatuses", [[sent.signature]])).toMatchObject({
      result: { value: [{ err, status: { Err: err } }] },
    });
    expect(node.lamportsOf(payer.address)).toBe(SOL - FEE);
  });

  test("that cannot pay its fee is in no block", async () => {
    const sent = await transfer(1n);
    node.setLamports(payer.address, FEE - 1n);
    await rpc.sendTransaction(sent.base64, { encoding: "base64", skipPreflight: true }).send();
    node.tick();
    expect(await statusOf(sent.signature)).toBeNull();
    expect(node.lamportsOf(payer.address)).toBe(FEE - 1n);
  });

  test("is dropped when its blockhash is older than 150 blocks, and not before", async () => {
    const options = { encoding: "base64", skipPreflight: true } as const;
    const inTime = await transfer(1n);
    const late = await transfer(2n);
    node.tick(150);
    await rpc.sendTransaction(inTime.base64, options).send();
    node.tick();
    await rpc.sendTransaction(late.base64, options).send();
    node.tick();
    expect(await statusOf(inTime.signature)).toMatchObject({ err: null });
    expect(await statusOf(late.signature)).toBeNull();
    expect(await node.tokenBalanceOf(payee.address, USDC_DEVNET)).toBe(1n);
  });

  test("is forgotten after 150 final blocks, unless its history is searched", async () => {
    const sent = await transfer(1n);
    await rpc.sendTransaction(sent.base64, BASE64).send();
    node.tick(33 + 150);
    expect(await statusOf(sent.signature)).not.toBeNull();
    node.tick();
    expect(await statusOf(sent.signature)).toBeNull();
    const config = { searchTransactionHistory: true };
    const { value } = await rpc.getSignatureStatuses([sent.signature], config).send();
    expect(value[0]).toMatchObject({ confirmationStatus: "finalized" });
  });

  test.each(["legacy", 0, 1] as const)("of version %s is sent, run and shown", async (version) => {
    const sent = await transfer(40n, { version });
    const config = { encoding: "base64", sigVerify: true, commitment: "processed" } as const;
    const { value } = await rpc.simulateTransaction(sent.base64, config).send();
    expect(value.err).toBeNull();
    await rpc.sendTransaction(sent.base64, BASE64).send();
    node.tick(2);
    expect(await node.tokenBalanceOf(payee.address, USDC_DEVNET)).toBe(40n);
    // A v1 message says itself what it pays on top.
    const fee = FEE + (version === 1 ? 777n : 0n);
    expect(node.lamportsOf(payer.address)).toBe(SOL - fee);
    const shown = await call("getTransaction", [
      sent.signature,
      { encoding: "base64", commitment: "confirmed", maxSupportedTransactionVersion: 1 },
    ]);
    expect(shown).toMatchObject({
      result: {
        slot: node.slot - 1,
        version,
        transaction: [sent.base64, "base64"],
        meta: { err: null, fee: Number(fee), postTokenBalances: expect.any(Array) },
      },
    });
  });

  test("finds its accounts in a lookup table", async () => {
    const to = await node.associatedTokenAccount(payee.address, USDC_DEVNET);
    const table = node.lookupTable([USDC_DEVNET, to]);
    const addresses = [USDC_DEVNET, to];
    const sent = await transfer(40n, { table: { address: table, addresses } });
    const plain = await transfer(40n);
    expect(sent.base64.length).toBeLessThan(plain.base64.length);
    await rpc.sendTransaction(sent.base64, BASE64).send();
    node.tick();
    expect(await node.tokenBalanceOf(payee.address, USDC_DEVNET)).toBe(40n);

    const missing = await generateKeyPairSigner();
    const lost = await transfer(1n, { table: { address: missing.address, addresses } });
    expect(await call("simulateTransaction", [lost.base64, { encoding: "base64" }])).toMatchObject({
      error: {
        code: -32_602,
        message:
          "invalid transaction: Transaction loads an address table account that doesn't exist",
      },
    });
  });
});

describe("a simulation", () => {
  const config = { encoding: "base64", commitment: "processed" } as const;

  test("takes a transaction whose fee payer has not signed, and shows the accounts after it", async () => {
    const { base64 } = await transfer(40n);
    const unsigned = Buffer.from(base64, "base64").fill(0, 1, 65).toString("base64");
    const from = await node.associatedTokenAccount(payer.address, USDC_DEVNET);
    const accounts = { encoding: "jsonParsed", addresses: [from, payee.address] };
    const answer = await call("simulateTransaction", [unsigned, { ...config, accounts }]);
    expect(answer).toMatchObject({
      result: {
        context: { slot: node.slot },
        value: {
          err: null,
          fee: Number(FEE),
          accounts: [
            { data: { parsed: { info: { tokenAmount: { amount: "60" } } } }, space: 165 },
            null,
          ],
        },
      },
    });
    const strict = await call("simulateTransaction", [unsigned, { ...config, sigVerify: true }]);
    expect(strict).toMatchObject({ result: { value: { err: "SignatureFailure" } } });
    expect(await node.tokenBalanceOf(payee.address, USDC_DEVNET)).toBe(0n);
  });

  test("has no accounts to show when it fails", async () => {
    const { base64 } = await transfer(101n);
    const accounts = { encoding: "base64", addresses: [payer.address] };
    expect(await call("simulateTransaction", [base64, { ...config, accounts }])).toMatchObject({
      result: { value: { err: { InstructionError: [0, { Custom: 1 }] }, accounts: [null] } },
    });
  });

  test("knows only blockhashes that are not newer than its commitment, and not about to expire", async () => {
    const { base64 } = await transfer(1n);
    const errorAt = async (commitment: string, more = {}) => {
      const options = { ...config, commitment, ...more };
      const answer = await call("simulateTransaction", [base64, options]);
      return (answer as { result: { value: { err: unknown } } }).result.value.err;
    };
    expect(await errorAt("processed")).toBeNull();
    expect(await errorAt("confirmed")).toBe("BlockhashNotFound");
    expect(await errorAt("confirmed", { replaceRecentBlockhash: true })).toBeNull();
    node.tick();
    expect(await errorAt("confirmed")).toBeNull();
    node.tick(143);
    expect(await errorAt("processed")).toBeNull();
    node.tick();
    expect(await errorAt("processed")).toBe("BlockhashNotFound");
  });

  test("says who cannot pay", async () => {
    const { base64 } = await transfer(1n);
    const errorWith = async (lamports: bigint) => {
      node.setLamports(payer.address, lamports);
      const answer = await call("simulateTransaction", [base64, config]);
      return (answer as { result: { value: { err: unknown } } }).result.value.err;
    };
    expect(await errorWith(0n)).toBe("AccountNotFound");
    expect(await errorWith(FEE - 1n)).toBe("InsufficientFundsForFee");
    const rent = { InsufficientFundsForRent: { account_index: 0 } };
    expect(await errorWith(890_880n + FEE - 1n)).toEqual(rent);
    expect(await errorWith(890_880n + FEE)).toBeNull();
  });

  test("refuses what is no transaction as invalid parameters", async () => {
    const { base64 } = await transfer(1n);
    const cut = Buffer.from(base64, "base64").subarray(0, -1).toString("base64");
    for (const bad of [cut, "AAAA", "?", "", Buffer.alloc(1_233).toString("base64")]) {
      for (const method of ["simulateTransaction", "sendTransaction"]) {
        expect(await call(method, [bad, config])).toMatchObject({ error: { code: -32_602 } });
      }
    }
  });
});

describe("blockhashes", () => {
  test("are valid as of the slot of the asked commitment", async () => {
    const valid = async (hash: Blockhash, commitment: Commitment) =>
      (await rpc.isBlockhashValid(hash, { commitment }).send()).value;
    const { value } = await rpc.getLatestBlockhash({ commitment: "processed" }).send();
    expect(await valid(value.blockhash, "processed")).toBe(true);
    expect(await valid(value.blockhash, "confirmed")).toBe(false);
    node.tick();
    expect(await valid(value.blockhash, "confirmed")).toBe(true);
    expect(await valid(value.blockhash, "finalized")).toBe(false);
    node.tick(149);
    expect(await valid(value.blockhash, "processed")).toBe(true);
    expect(await rpc.getBlockHeight({ commitment: "processed" }).send()).toBe(
      value.lastValidBlockHeight,
    );
    node.tick();
    expect(await valid(value.blockhash, "processed")).toBe(false);
    expect(await valid(value.blockhash, "confirmed")).toBe(true);
    node.tick();
    expect(await valid(value.blockhash, "confirmed")).toBe(false);
  });

  test("and slots are behind by commitment, and minContextSlot is kept", async () => {
    const slots = ["processed", "confirmed", "finalized"] as const;
    const seen = await Promise.all(slots.map((commitment) => rpc.getSlot({ commitment }).send()));
    expect(seen.map(Number)).toEqual([node.slot, node.slot - 1, node.slot - 32]);
    const minContextSlot = node.slot;
    expect(await call("getBalance", [payer.address, { minContextSlot }])).toMatchObject({
      error: {
        code: -32_016,
        message: "Minimum context slot has not been reached",
        data: { contextSlot: node.slot - 32 },
      },
    });
    const config = { minContextSlot, commitment: "processed" };
    expect(await call("getBalance", [payer.address, config])).toMatchObject({
      result: { context: { slot: node.slot }, value: Number(SOL) },
    });
  });
});
