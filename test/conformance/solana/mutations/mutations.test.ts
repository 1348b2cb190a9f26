/**
 * Thousands of payments with something changed at random, each put to `verify` and `settle` of a facilitator
 * whose transactions a local node executes. Whatever they are: our accounts lose the network fee of a payment
 * that was signed, within the cap, and nothing else; and who is told to be paid was paid, to the last unit.
 */
import { onTheWire } from "../../../../src/facilitator/wire-facilitator.ts";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { associatedAccount } from "../../../../src/mechanism/solana/associated-account.ts";
import {
  LIGHTHOUSE_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
} from "../../../../src/mechanism/solana/programs.ts";
import { Keypair } from "../../../../src/mechanism/solana/signing.ts";
import type { FacilitatorRequest, SettleResponse } from "../../../../src/x402/x402.ts";
import { Random } from "../../../simulation/random.ts";
import { testKey, type Payment } from "../../../support/solana-messages.ts";
import { requestOf, requirementsOf } from "../../../support/solana-requests.ts";
import { fromBase58 } from "../../../support/solana/base58.ts";
import { feeOf } from "../../../support/solana/fees.ts";
import { startSolanaNode, type SolanaNode } from "../../../support/solana/solana-node.ts";
import {
  encodeTokenAccount,
  readTokenAccount,
  u32,
  u64,
} from "../../../support/solana/token-layout.ts";
import { readTransaction } from "../../../support/solana/wire-transaction.ts";
import { join, partsOf } from "../../../unit/mechanism/solana/message-encoder.ts";
import { assetOf } from "../mints.ts";
import type { Surroundings } from "./draft-changes.ts";
import { mutate, type Mutant } from "./mutants.ts";
import { FEE_PAYERS, openFacilitator, usualSetup, type Facilitator } from "../stage.ts";
import { signedText } from "../wire-faults.ts";
import { effort } from "../../../support/effort.ts";

const COUNT = effort(1_500, 6_000);
/** Of the first one; each mutant has a seed of its own, whatever became of those before it. */
const SEED = 20_260_101;
/** So many of the payments at least have to be good ones: what is refused proves little about settling. */
const LEAST_ACCEPTED = COUNT / 10;
/** One payer in so many has spent the tokens elsewhere when the block is made. */
const DRAINED_EACH = 200;
const TIMEOUT_MS = 300_000;

const LAMPORTS = 10n ** 15n;
const TOKENS = 10n ** 12n;
const MAX_AMOUNT = 1_000_000;
const PAYEES = 8;
const NEW_PAYEE_SHARE = 0.15;

const network = "solana-devnet";
const asset = assetOf("USDC", network);
const [PAYER, STRANGER] = [testKey(70), testKey(71)];
const [ANOTHER_OF_OURS, NONCE, NONCE_VALUE] = [testKey(72), testKey(73), testKey(74)];
const OURS = FEE_PAYERS.map((number) => testKey(number).address);
const [FIRST_OF_OURS = ""] = OURS;
const tokensOf = (owner: string): string => associatedAccount(owner, asset.address, TOKEN_PROGRAM);
const payees = Array.from({ length: PAYEES }, (_, index) => testKey(80 + index).address);
/** Everything that has to stay as it is, but for the fees. */
const ourTokens = [...OURS.map(tokensOf), ANOTHER_OF_OURS.address];

const closing = new AsyncDisposableStack();
let node: SolanaNode;
let facilitator: Omit<Facilitator, "url">;
let table: Surroundings["table"];

beforeAll(async () => {
  node = closing.use(await startSolanaNode({ slotMs: null, seed: "mutations" }));
  node.loadLighthouseStandIn();
  for (const wallet of [...OURS, PAYER.address, STRANGER.address]) {
    node.setLamports(wallet, LAMPORTS);
    await node.fundToken({ mint: asset.address, owner: wallet, amount: TOKENS });
  }
  for (const owner of payees) await node.fundToken({ mint: asset.address, owner, amount: 0n });
  // Two accounts of ours, and one of the stranger's, that the payer was allowed to spend from.
  const account = node.account(tokensOf(FIRST_OF_OURS));
  if (account !== null) node.setAccount(ANOTHER_OF_OURS.address, account);
  for (const lent of [
    tokensOf(FIRST_OF_OURS),
    ANOTHER_OF_OURS.address,
    tokensOf(STRANGER.address),
  ]) {
    node.approve(lent, PAYER.address, TOKENS);
  }
  const entries = [asset.address, ...payees.map(tokensOf), tokensOf(PAYER.address), ...OURS];
  table = { address: node.lookupTable(entries), entries };
  node.setAccount(NONCE.address, nonceAccount());
  const usdc = { ...usualSetup, mints: ["USDC" as const] };
  facilitator = await openFacilitator({ network, node, ...usdc }, closing);
});

afterAll(() => closing.disposeAsync());

test(
  "no mutated payment costs us more than its fee, and whatever is settled is paid",
  async () => {
    let accepted = 0;
    for (let index = 0; index < COUNT; index += 1) if (await play(index)) accepted += 1;
    const share = `${accepted} of ${COUNT} were accepted`;
    expect(accepted, share).toBeGreaterThanOrEqual(LEAST_ACCEPTED);
    expect(accepted, share).toBeLessThan(COUNT);
  },
  TIMEOUT_MS,
);

/** Whether it was accepted. */
async function play(index: number): Promise<boolean> {
  const random = new Random(SEED + index);
  const isDrained = index % DRAINED_EACH === 0;
  const payer = isDrained ? await freshPayer(random) : PAYER;
  const payment = paymentOf(random, payer);
  const destination = tokensOf(payment.payTo);
  const mutant = mutate(random, surroundings(payment));
  const request = requestOf(transactionOf(mutant, payer), requirementsOf(payment));
  const steps = [...mutant.steps, ...(mutant.isForged ? ["unsigned"] : [])];
  const name = `mutant ${index} (${steps.join(", ")})`;
  node.resetCalls();
  const before = look(destination);
  const verdict = await onTheWire(facilitator.facilitator).verify(
    request,
    new AbortController().signal,
  );
  const settled = await settle(request, isDrained ? tokensOf(payer.address) : undefined);
  const after = look(destination);
  const { sent } = node;
  const said = `${name}: ${JSON.stringify(verdict)} ${JSON.stringify(settled)}`;
  if (!verdict.isValid) {
    expect(settled, said).toMatchObject({ success: false, errorReason: verdict.invalidReason });
    expect(sent, said).toEqual([]);
  }
  if (!settled.success) expect(settled.transaction, said).toBe("");
  expect(settled.success, said).toBe(verdict.isValid && !isDrained);
  const fee = feeOfAll(sent, said);
  expect(fee, said).toBeLessThanOrEqual(facilitator.capLamports);
  expect(after, said).toEqual({
    ...before,
    lamports: before.lamports.with(
      OURS.indexOf(payment.feePayer),
      (before.lamports[OURS.indexOf(payment.feePayer)] ?? 0n) - fee,
    ),
    destination: before.destination + (settled.success ? payment.amount : 0n),
  });
  return verdict.isValid;
}

function paymentOf(random: Random, payer: Keypair): Payment {
  const isNew = random.chance(NEW_PAYEE_SHARE);
  const [first = "", ...others] = payees;
  return {
    feePayer: OURS[random.between(0, OURS.length - 1)] ?? FIRST_OF_OURS,
    payer,
    payTo: isNew ? randomKey(random).address : random.pick([first, ...others]),
    asset: asset.address,
    decimals: asset.decimals,
    tokenProgram: TOKEN_PROGRAM,
    amount: BigInt(random.between(1, MAX_AMOUNT)),
  };
}

const KEY_BYTES = 32;

function randomKey(random: Random): Keypair {
  return new Keypair(Uint8Array.from({ length: KEY_BYTES }, () => random.between(0, 255)));
}

async function freshPayer(random: Random): Promise<Keypair> {
  const payer = randomKey(random);
  node.setLamports(payer.address, LAMPORTS);
  await node.fundToken({ mint: asset.address, owner: payer.address, amount: TOKENS });
  return payer;
}

function surroundings(payment: Payment): Surroundings {
  const destination = tokensOf(payment.payTo);
  const strangerTokens = tokensOf(STRANGER.address);
  const [ours = "", , another = ""] = ourTokens;
  return {
    payment,
    blockhash: node.blockhash,
    hasDestination: node.account(destination) !== null,
    table,
    ourTokens: [ours, another],
    stranger: STRANGER.address,
    strangerTokens,
    lent: strangerTokens,
    nonce: NONCE.address,
    pool: [
      payment.payer.address,
      tokensOf(payment.payer.address),
      payment.payTo,
      destination,
      payment.asset,
      STRANGER.address,
      strangerTokens,
      ...OURS,
      ...OURS,
      ...ourTokens,
      NONCE.address,
      NONCE_VALUE.address,
      TOKEN_PROGRAM,
      SYSTEM_PROGRAM,
      "SysvarRent111111111111111111111111111111111",
      "SysvarRecentB1ockHashes11111111111111111111",
    ],
  };
}

/** Signed by whomever it asks for, but for us; or by nobody. */
function transactionOf({ message, isForged }: Mutant, payer: Keypair): string {
  const parts = partsOf(message, []).slice(message.version === 1 ? 0 : 1);
  return signedText(message, join(parts), isForged ? [] : [payer, STRANGER]);
}

/** Slots pass as soon as something waits for one; before that, the payer's tokens may be gone. */
async function settle(
  request: FacilitatorRequest,
  drained: string | undefined,
): Promise<SettleResponse> {
  // A time limit for each would leave thousands of timers behind: the test's own is enough.
  const { signal } = new AbortController();
  const over = new AbortController();
  const settling = onTheWire(facilitator.facilitator)
    .settle(request, { signal })
    .finally(() => over.abort());
  const [settled] = await Promise.all([settling, letSlotsPass(over.signal, drained)]);
  return settled;
}

async function letSlotsPass(over: AbortSignal, drained: string | undefined): Promise<void> {
  while (!over.aborted) {
    await setImmediate();
    if (node.queued === 0 || node.subscriptions === 0) continue;
    if (drained !== undefined) drain(drained);
    node.tick(2);
  }
}

function drain(at: string): void {
  const account = node.account(at);
  const tokens = readTokenAccount(account);
  if (account === null || tokens === null) throw new Error(`no token account at ${at}`);
  node.setAccount(at, { ...account, data: encodeTokenAccount({ ...tokens, amount: 0n }) });
}

/** What a mutant must leave as it is, but for a fee and the payee's tokens. */
function look(destination: string) {
  const accounts = OURS.map((address) => node.account(address));
  return {
    lamports: accounts.map((account) => account?.lamports ?? 0n),
    owners: accounts.map((account) => account?.owner),
    tokens: ourTokens.map((address) =>
      Buffer.from(node.account(address)?.data ?? []).toString("hex"),
    ),
    destination: readTokenAccount(node.account(destination))?.amount ?? 0n,
  };
}

/** Of the one transaction that was sent, as a node reads it; 0 where none was. */
function feeOfAll(sent: readonly string[], said: string): bigint {
  const [raw, ...others] = new Set(sent);
  if (raw === undefined) return 0n;
  expect(others, said).toEqual([]);
  const wire = readTransaction(Buffer.from(raw, "base64"));
  // What stands for Lighthouse here cannot write: so it is told what could.
  for (const { programIndex, data } of wire.instructions) {
    if (wire.staticKeys[programIndex] !== LIGHTHOUSE_PROGRAM) continue;
    expect(ASSERTIONS, said).toContain(data[0]);
  }
  return feeOf(wire);
}

/** AssertAccountInfoMulti and AssertTokenAccountMulti. */
const ASSERTIONS = [6, 10];

function nonceAccount() {
  const parts = [
    u32(1),
    u32(1),
    fromBase58(PAYER.address),
    fromBase58(NONCE_VALUE.address),
    u64(5_000n),
  ];
  const data = Buffer.concat(parts);
  return { lamports: 10_000_000n, data, owner: SYSTEM_PROGRAM, executable: false };
}
