/** The start-up checks, against the local node. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import type { SolanaMechanismOptions } from "../../../../src/mechanism/solana/solana.ts";
import { layOut, testKey } from "../../../support/solana-messages.ts";
import {
  devnet,
  devnetPayment,
  never,
  openSolanaMechanism,
  requestFor,
  secretOf,
} from "../../../support/solana-requests.ts";
import {
  GENESIS_HASHES,
  startSolanaNode,
  type SolanaNode,
} from "../../../support/solana/solana-node.ts";

const SOL = 1_000_000_000n;
const RENT = 890_880n;
const [feePayer, second, payee] = [testKey(1).address, testKey(8).address, testKey(3).address];
const { asset } = devnet();

let node: SolanaNode;
beforeAll(async () => {
  node = await startSolanaNode({ slotMs: null });
});
afterAll(() => node.stop());
beforeEach(async () => {
  node.setLamports(feePayer, SOL);
  node.setLamports(second, SOL);
  await node.fundToken({ mint: asset.address, owner: payee, amount: 0n });
  node.resetCalls();
});

async function findings(members: Partial<SolanaMechanismOptions> = {}): Promise<string[]> {
  const solana = openSolanaMechanism({ rpcUrls: [node.rpcUrl], allowPayTo: [payee], ...members });
  try {
    const found = await solana.probe(never);
    return found.map(({ level, message }) => `${level}: ${message}`);
  } finally {
    await solana.close();
  }
}

describe("the cluster", () => {
  test("that is the right one, in order, gives no finding, for one read of all accounts", async () => {
    expect(await findings()).toEqual([]);
    expect(node.calls()).toEqual({ getGenesisHash: 1, getMultipleAccounts: 1 });
  });

  test("that is another one is an error, with both genesis hashes in full", async () => {
    await using main = await startSolanaNode({ slotMs: null, genesisHash: GENESIS_HASHES.solana });
    expect(await findings({ rpcUrls: [main.rpcUrl] })).toEqual([
      `error: ${new URL(main.rpcUrl).host} serves the cluster with genesis hash "${GENESIS_HASHES.solana}", ` +
        `but solana-devnet has ${GENESIS_HASHES["solana-devnet"]}`,
    ]);
    expect(main.count("getMultipleAccounts")).toBe(0);
    const [left, ...others] = await findings({ rpcUrls: [main.rpcUrl, node.rpcUrl] });
    expect(left).toMatch(/^warning: .*; that endpoint is not used$/);
    expect(others).toEqual([]);
  });

  test("that cannot be reached is told by a throw, or by a warning where another one can", async () => {
    const nowhere = "http://127.0.0.1:9/v2/secret-api-key";
    await expect(findings({ rpcUrls: [nowhere] })).rejects.toMatchObject({
      code: "CHAIN_UNREACHABLE",
    });
    const [left, ...others] = await findings({ rpcUrls: [nowhere, node.rpcUrl] });
    expect(left).toMatch(
      /^warning: .*127\.0\.0\.1:9.*; that endpoint is not used until it answers$/,
    );
    expect(left).not.toContain("secret-api-key");
    expect(others).toEqual([]);
  });

  test("that answers nonsense is told by a throw", async () => {
    for (const method of ["getGenesisHash", "getMultipleAccounts"]) {
      node.inject({ method, result: 5, times: 1 });
      await expect(findings()).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
    }
  });
});

describe("a fee payer", () => {
  test.each([
    [0n, "holds 0 SOL and cannot pay network fees; send it at least 0.00289088 SOL"],
    [
      RENT + 9_999n,
      "holds 0.000900879 SOL and cannot pay network fees, since 0.00089088 SOL must stay; " +
        "send it at least 0.00289088 SOL",
    ],
  ])("that cannot pay one settlement, with %i lamports, is an error", async (lamports, said) => {
    node.setLamports(feePayer, lamports);
    expect(await findings()).toEqual([`error: solana-devnet: ${feePayer} ${said}`]);
  });

  test("that can pay a few is a warning with their number", async () => {
    node.setLamports(feePayer, RENT + 199_999n);
    expect(await findings()).toEqual([
      `warning: solana-devnet: ${feePayer} holds 0.001090879 SOL, enough for about 19 settlements; ` +
        `send it at least 0.00289088 SOL`,
    ]);
  });

  test("that cannot pay is a warning where another one can", async () => {
    node.setLamports(feePayer, 0n);
    const keys = [secretOf(1), secretOf(8)];
    expect(await findings({ keys })).toEqual([
      expect.stringMatching(new RegExp(`^warning: solana-devnet: ${feePayer} holds 0 SOL`)),
    ]);
    node.setLamports(second, 0n);
    expect(await findings({ keys })).toEqual([
      expect.stringMatching(/^error: /),
      expect.stringMatching(/^error: /),
    ]);
  });

  test("that is no plain wallet is an error", async () => {
    const tokens = await node.fundToken({ mint: asset.address, owner: payee, amount: 0n });
    const account = node.account(tokens);
    if (account === null) throw new Error("no account");
    node.setAccount(second, { ...account, lamports: SOL });
    expect(await findings({ keys: [secretOf(8)] })).toEqual([
      `error: solana-devnet: ${second} belongs to the program ${TOKEN_PROGRAM} and cannot pay network fees; ` +
        `use the key of a plain wallet`,
    ]);
    node.setAccount(second, { ...account, lamports: 0n });
  });

  test("that is found to be low is not offered to buyers any more", async () => {
    const keys = [secretOf(1), secretOf(8)];
    const solana = openSolanaMechanism({ rpcUrls: [node.rpcUrl], keys });
    await solana.probe(never);
    expect(solana.kind.extra).toEqual({ feePayer });
    node.setLamports(feePayer, RENT + 20_000n);
    await solana.probe(never);
    expect(solana.kind.extra).toEqual({ feePayer: second });
    node.setLamports(feePayer, SOL);
    await solana.balance(feePayer, never);
    expect(solana.kind.extra).toEqual({ feePayer });
    await solana.close();
  });
});

/** Another token, of which no more is known. */
function other(address: string) {
  return { ...asset, symbol: "EURC", address, tokenProgram: null };
}

describe("a mint", () => {
  test("that does not exist, or is no mint, is an error", async () => {
    const [nowhere, wallet] = [testKey(50).address, second];
    expect(await findings({ assets: [other(nowhere), other(wallet)] })).toEqual([
      `error: solana-devnet: the token EURC at ${nowhere} does not exist`,
      expect.stringMatching(
        `^error: solana-devnet: the token EURC at ${wallet} cannot be accepted: `,
      ),
    ]);
  });

  test("that is too large to be read whole is an error", async () => {
    const mint = node.createMint({ decimals: 6, program: "token-2022" });
    const account = node.account(mint);
    if (account === null) throw new Error("no account");
    const data = new Uint8Array(20_000);
    data.set(account.data);
    node.setAccount(mint, { ...account, data });
    expect(await findings({ assets: [other(mint)] })).toEqual([
      expect.stringMatching(/^error: .* cannot be accepted: its account has 16384 bytes or more/),
    ]);
  });

  test("that has other decimals, or another program than configured, is an error", async () => {
    const mint = node.createMint({ decimals: 9, program: "token-2022" });
    await node.fundToken({ mint, owner: payee, amount: 0n });
    const title = `error: solana-devnet: the token EURC at ${mint}`;
    expect(await findings({ assets: [other(mint)] })).toEqual([`${title} has 9 decimals, not 6`]);
    const configured = { ...other(mint), decimals: 9, tokenProgram: TOKEN_PROGRAM };
    expect(await findings({ assets: [configured] })).toEqual([
      `${title} belongs to ${TOKEN_2022_PROGRAM}, not to ${TOKEN_PROGRAM}`,
    ]);
  });

  test("that keeps a part of what is paid is an error", async () => {
    const extensions = { transferFee: { basisPoints: 100 } };
    const mint = node.createMint({ decimals: 6, program: "token-2022", extensions });
    expect(await findings({ assets: [other(mint)] })).toEqual([
      expect.stringMatching(/^error: .* cannot be accepted: it takes a transfer fee of 100 basis/),
    ]);
  });

  test("of either program is found out, and payments in it are then judged without the chain", async () => {
    for (const program of ["token", "token-2022"] as const) {
      const mint = node.createMint({ decimals: 6, program });
      await node.fundToken({ mint, owner: payee, amount: 0n });
      const solana = openSolanaMechanism({
        rpcUrls: [node.rpcUrl],
        assets: [other(mint)],
        allowPayTo: [payee],
      });
      const tokenProgram = program === "token" ? TOKEN_PROGRAM : TOKEN_2022_PROGRAM;
      const payment = devnetPayment({ asset: mint, tokenProgram });
      const request = requestFor(layOut("svm", payment), payment);
      expect(solana.check(request, 0)).toMatchObject({
        value: { fault: null, authorization: { judged: undefined } },
      });
      expect(await solana.probe(never)).toEqual([]);
      expect(solana.check(request, 0)).toMatchObject({
        value: { fault: null, authorization: { judged: { tokenProgram } } },
      });
      await solana.close();
    }
  });
});

describe("a payee", () => {
  test("without a token account is a warning with the command that creates it", async () => {
    const [nobody, evm] = [testKey(51).address, "0x036CbD53842c5426634e7929541eC2318f3dCF7e"];
    const account = await node.associatedTokenAccount(nobody, asset.address);
    expect(await findings({ allowPayTo: [nobody, evm, payee] })).toEqual([
      `warning: solana-devnet: payTo ${nobody} has no token account for USDC yet (it would be ${account}), ` +
        `and payments to it are refused unless their buyer pays for creating it; create it with: ` +
        `spl-token create-account ${asset.address} --owner ${nobody} --fee-payer <keypair> --url devnet`,
    ]);
    expect(await findings({ allowPayTo: "any" })).toEqual([]);
  });

  test("whose token account is frozen, or was given to somebody else, is a warning", async () => {
    const [cold, gone] = [testKey(52).address, testKey(53).address];
    const frozen = await node.fundToken({ mint: asset.address, owner: cold, amount: 0n });
    node.freeze(frozen);
    const given = await node.fundToken({ mint: asset.address, owner: gone, amount: 0n });
    const stranger = node.account(await node.associatedTokenAccount(payee, asset.address));
    if (stranger === null) throw new Error("no account");
    node.setAccount(given, stranger);
    const title = "warning: solana-devnet: payTo";
    expect(await findings({ allowPayTo: [cold, gone] })).toEqual([
      `${title} ${cold}: its token account for USDC, ${frozen}, is frozen, and payments to it are refused`,
      `${title} ${gone}: its token account for USDC, ${given}, has been given to ${payee}, who gets what is paid to it`,
    ]);
  });

  test("that is a token account instead of a wallet is a warning", async () => {
    const tokens = await node.associatedTokenAccount(payee, asset.address);
    const found = await findings({ allowPayTo: [tokens] });
    expect(found.at(-1)).toBe(
      `warning: solana-devnet: payTo ${tokens} is a token account or a mint, and what is paid to it would be lost; ` +
        `name the wallet that owns it`,
    );
  });

  test("is one of many, and each call asks for a hundred accounts at most", async () => {
    const payees = Array.from({ length: 70 }, (_, index) => testKey(100 + index).address);
    expect(await findings({ allowPayTo: payees })).toHaveLength(70);
    expect(node.count("getMultipleAccounts")).toBe(2);
  });
});
