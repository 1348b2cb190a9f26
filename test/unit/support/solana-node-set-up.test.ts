/** The set-up of the local Solana node makes states in which the real programs behave as they should. */
import {
  createKeyPairSignerFromBytes,
  createSolanaRpc,
  devnet,
  generateKeyPairSigner,
  getAddressEncoder,
  type KeyPairSigner,
  type Rpc,
  type SolanaRpcApiDevnet,
} from "@solana/kit";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  advanceNonce,
  sampleTransaction,
  transferChecked,
  transferLamports,
} from "../../support/solana/sample-transaction.ts";
import { LIGHTHOUSE_PROGRAM, USDC_DEVNET, USDC_MAINNET } from "../../support/solana/set-up.ts";
import { ASSERTION_FAILED } from "../../support/solana/lighthouse-stand-in.ts";
import { call as instructionOf, integer, walletGuard } from "../../support/solana-messages.ts";
import { startSolanaNode, type SolanaNode } from "../../support/solana/solana-node.ts";
import { TOKEN_2022_PROGRAM } from "../../support/solana/token-layout.ts";

const SOL = 1_000_000_000n;
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

async function call(method: string, params: readonly unknown[]): Promise<unknown> {
  const response = await fetch(node.rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  return response.json();
}

describe("the set-up", () => {
  test("has the real USDC mints, whose authority the test holds", async () => {
    for (const mint of [USDC_DEVNET, USDC_MAINNET]) {
      expect(await call("getAccountInfo", [mint, { encoding: "jsonParsed" }])).toMatchObject({
        result: {
          value: {
            owner: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
            data: {
              program: "spl-token",
              parsed: { info: { decimals: 6, mintAuthority: node.mintAuthority.address } },
            },
          },
        },
      });
    }
    const authority = await createKeyPairSignerFromBytes(node.mintAuthority.secretKey);
    expect(authority.address).toBe(node.mintAuthority.address);
  });

  test("makes Token-2022 mints whose fee the real program takes", async () => {
    const mint = node.createMint({
      decimals: 2,
      program: "token-2022",
      extensions: { transferFee: { basisPoints: 1_000 }, transferHook: null },
    });
    const source = await node.fundToken({ mint, owner: payer.address, amount: 1_000n });
    const destination = await node.fundToken({ mint, owner: payee.address, amount: 0n });
    const instruction = transferChecked({
      source,
      mint,
      destination,
      authority: payer,
      amount: 100n,
      decimals: 2,
      program: TOKEN_2022_PROGRAM,
    });
    const sent = await sampleTransaction({ node, payer, instructions: [instruction] });
    await rpc.sendTransaction(sent.base64, BASE64).send();
    node.tick();
    expect(await node.tokenBalanceOf(payee.address, mint)).toBe(90n);
    const config = { encoding: "jsonParsed", commitment: "processed" };
    expect(await call("getAccountInfo", [mint, config])).toMatchObject({
      result: { value: { data: { program: "spl-token-2022", parsed: { type: "mint" } } } },
    });
  });

  test.each([
    ["nonTransferable", { nonTransferable: true }, 37],
    ["transferHook", { transferHook: "L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95" }, undefined],
  ] as const)(
    "makes %s mints that the real program refuses to move",
    async (_, extensions, code) => {
      const mint = node.createMint({ decimals: 2, program: "token-2022", extensions });
      const source = await node.fundToken({ mint, owner: payer.address, amount: 1_000n });
      const destination = await node.fundToken({ mint, owner: payee.address, amount: 0n });
      const instruction = transferChecked({
        source,
        mint,
        destination,
        authority: payer,
        amount: 100n,
        decimals: 2,
        program: TOKEN_2022_PROGRAM,
      });
      const sent = await sampleTransaction({ node, payer, instructions: [instruction] });
      const answer = await call("sendTransaction", [sent.base64, BASE64]);
      const reason = code === undefined ? expect.anything() : { Custom: code };
      expect(answer).toMatchObject({ error: { data: { err: { InstructionError: [0, reason] } } } });
    },
  );

  test("freezes token accounts and lets delegates spend", async () => {
    const source = await node.associatedTokenAccount(payer.address, USDC_DEVNET);
    const destination = await node.associatedTokenAccount(payee.address, USDC_DEVNET);
    const delegate = await generateKeyPairSigner();
    node.fundSol(delegate.address, SOL);
    node.approve(source, delegate.address, 7n);
    const instruction = transferChecked({
      source,
      mint: USDC_DEVNET,
      destination,
      authority: delegate,
      amount: 7n,
      decimals: 6,
    });
    const send = async () => {
      const sent = await sampleTransaction({ node, payer: delegate, instructions: [instruction] });
      return call("sendTransaction", [sent.base64, BASE64]);
    };
    node.freeze(source);
    const frozen = { InstructionError: [0, { Custom: 17 }] };
    expect(await send()).toMatchObject({ error: { data: { err: frozen } } });
    node.freeze(source, false);
    await send();
    node.tick();
    expect(await node.tokenBalanceOf(payee.address, USDC_DEVNET)).toBe(7n);
  });

  test("lets a stand-in for Lighthouse judge lamports", async () => {
    const instruction = walletGuard(payer.address);
    const before = await sampleTransaction({ node, payer, instructions: [instruction] });
    expect(await call("sendTransaction", [before.base64, BASE64])).toMatchObject({
      error: { data: { err: "ProgramAccountNotFound" } },
    });
    node.loadLighthouseStandIn();
    const after = await sampleTransaction({ node, payer, instructions: [instruction] });
    await rpc.sendTransaction(after.base64, BASE64).send();
    node.tick();
    const { value } = await rpc.getSignatureStatuses([after.signature]).send();
    expect(value[0]).toMatchObject({ err: null });
    const tooMany = walletGuard(payer.address, node.lamportsOf(payer.address) + 1n);
    const failing = await sampleTransaction({ node, payer, instructions: [tooMany] });
    expect(await call("sendTransaction", [failing.base64, BASE64])).toMatchObject({
      error: { data: { err: { InstructionError: [0, { Custom: ASSERTION_FAILED }] } } },
    });
  });

  test("and the clock", async () => {
    node.loadLighthouseStandIn();
    const until = async (slot: number) => {
      const clock = "SysvarC1ock11111111111111111111111111111111";
      const instruction = instructionOf(LIGHTHOUSE_PROGRAM, [15, 4, ...integer(slot, 8)], [clock]);
      const sent = await sampleTransaction({ node, payer, instructions: [instruction] });
      const options = { encoding: "base64", commitment: "processed" };
      return call("simulateTransaction", [sent.base64, options]);
    };
    expect(await until(node.slot + 9)).toMatchObject({ result: { value: { err: null } } });
    expect(await until(node.slot - 1)).toMatchObject({
      result: { value: { err: { InstructionError: [0, { Custom: ASSERTION_FAILED }] } } },
    });
  });

  test("gives lamports to whoever asks for an airdrop", async () => {
    const poor = await generateKeyPairSigner();
    await call("requestAirdrop", [poor.address, Number(SOL)]);
    await call("requestAirdrop", [poor.address, Number(SOL)]);
    node.tick();
    expect(node.lamportsOf(poor.address)).toBe(2n * SOL);
    const instruction = transferLamports(poor, payee.address, SOL);
    const sent = await sampleTransaction({ node, payer: poor, instructions: [instruction] });
    await rpc.sendTransaction(sent.base64, BASE64).send();
    node.tick(2);
    const found = await rpc
      .getSignaturesForAddress(payee.address, { commitment: "confirmed" })
      .send();
    expect(found.map(({ signature }) => signature)).toEqual([sent.signature]);
  });

  test("takes a durable nonce for a blockhash, as often as it is advanced", async () => {
    const nonceAccount = (await generateKeyPairSigner()).address;
    const nonce = (await generateKeyPairSigner()).address;
    const head = Buffer.from([1, 0, 0, 0, 1, 0, 0, 0]);
    const authority = Buffer.from(getAddressEncoder().encode(payer.address));
    const value = Buffer.from(getAddressEncoder().encode(nonce));
    node.setAccount(nonceAccount, {
      lamports: SOL,
      data: Buffer.concat([head, authority, value, Buffer.alloc(8)]),
      owner: "11111111111111111111111111111111",
      executable: false,
    });
    const advance = advanceNonce(nonceAccount, payer);
    const instructions = [advance];
    const options = { node, payer, instructions, blockhash: nonce };
    const sent = await sampleTransaction(options);
    node.tick(500);
    await rpc.sendTransaction(sent.base64, BASE64).send();
    node.tick();
    const { value: statuses } = await rpc.getSignatureStatuses([sent.signature]).send();
    expect(statuses[0]).toMatchObject({ err: null });
    const other = await sampleTransaction({ ...options, version: "legacy" });
    expect(await call("sendTransaction", [other.base64, BASE64])).toMatchObject({
      error: { data: { err: "BlockhashNotFound" } },
    });
  });
});
