/**
 * A case made real: the chain is brought into its state, the payment is built and signed, then changed. The
 * values that a case may name: payer, payee, stranger, feePayer and otherFeePayer (ours), listed (the only
 * payee of the facilitator `for one payee`); source and destination (the token accounts of payer and payee),
 * strangerTokens, feePayerTokens; asset, usdc, price, blockhash, lent, nonce (an account that holds one)
 * and nonceValue.
 */
import { randomBytes } from "node:crypto";
import { associatedAccount } from "../../../src/mechanism/solana/associated-account.ts";
import {
  ASSOCIATED_TOKEN_PROGRAM,
  SYSTEM_PROGRAM,
} from "../../../src/mechanism/solana/programs.ts";
import { Keypair } from "../../../src/mechanism/solana/signing.ts";
import { memberOf } from "../../../src/x402/json.ts";
import type { FacilitatorRequest, PaymentRequirements } from "../../../src/x402/x402.ts";
import {
  buildTransaction,
  testKey,
  type Payment,
  type Plan,
} from "../../support/solana-messages.ts";
import { requestOf, requirementsOf } from "../../support/solana-requests.ts";
import { fromBase58, toBase58 } from "../../support/solana/base58.ts";
import type { SolanaNode } from "../../support/solana/solana-node.ts";
import {
  encodeTokenAccount,
  readTokenAccount,
  u32,
  u64,
} from "../../support/solana/token-layout.ts";
import { evaluate, evaluateText, type Names } from "../references.ts";
import { assetOf } from "./mints.ts";
import { planOf } from "./plan.ts";
import type { SolanaCase } from "./solana-case.ts";
import { FEE_PAYERS, LISTED, type Cast } from "./stage.ts";
import { spoilMessage, spoilSigned, spoilText } from "./wire-faults.ts";

export interface Scenario {
  readonly payment: Payment;
  /** As signed, before anything was changed. */
  readonly original: FacilitatorRequest;
  /** Another payment of the same payer, for the same. */
  readonly sibling: FacilitatorRequest;
  /** The transaction that is sent: base64, or what a fault has made of it. */
  readonly transaction: string;
  /** The body of both requests. */
  readonly body: string;
  /** What payment and requirements name as their networks. */
  readonly networks: readonly string[];
  readonly names: Names;
}

/** One US cent. */
const PRICE = "10000";
const STRANGER = testKey(40);
/** A token account that is nobody's associated one. */
const ANOTHER_ACCOUNT = testKey(41).address;
const NONCE_ACCOUNT = testKey(42).address;
const NONCE_VALUE = testKey(43).address;
/** An account of the Associated Token Account program, which no key can sign for. */
const PROGRAM_ACCOUNT = associatedAccount(
  testKey(44).address,
  testKey(45).address,
  ASSOCIATED_TOKEN_PROGRAM,
);

const randomAddress = (): string => toBase58(randomBytes(32));
const freshKey = (): Keypair => new Keypair(randomBytes(32));

/** Plays everything up to the request, but for what was done with the payment before. */
export async function enact(each: SolanaCase, cast: Cast): Promise<Scenario> {
  const { node } = cast;
  const { known, payment, requirements } = wanted(each, cast);
  const { tables, ...made } = await arrange(each, payment, known, node);
  const names = { ...known, ...made };
  const keys = new Map([payment.payer, STRANGER].map((key) => [key.address, key]));
  const signers = each.pay.signers.flatMap((name) => keys.get(evaluateText(name, names)) ?? []);
  const subject = { payment, names, signers, tables };
  const good = buildTransaction(planOf(each, subject));
  const other = { ...each, pay: { ...each.pay, memo: "another one" } };
  const sibling = requestOf(buildTransaction(planOf(other, subject)), requirements);
  const original = requestOf(good, requirements);
  const spoiled = spoil(each, good, signers);
  node.tick(each.given.slots);
  return {
    payment,
    original,
    sibling,
    transaction: spoiled,
    names,
    ...write(each, original, spoiled, names),
  };
}

/** Names, payment and requirements, with what the case asks for. */
function wanted(
  { given, ask, pay }: SolanaCase,
  { node, facilitator }: Cast,
): { known: Names; payment: Payment; requirements: PaymentRequirements } {
  const asset = assetOf(given.mint, given.network);
  const payer = freshKey();
  const [feePayer = "", otherFeePayer = testKey(FEE_PAYERS[1]).address] = facilitator.feePayers;
  const payee = payeeOf(given.seller);
  const base = { stranger: STRANGER.address, listed: LISTED, feePayer, otherFeePayer };
  const known: Names = {
    ...base,
    payer: payer.address,
    payee,
    asset: asset.address,
    usdc: assetOf("USDC", given.network).address,
    price: PRICE,
    blockhash: node.blockhash,
    nonce: NONCE_ACCOUNT,
    nonceValue: NONCE_VALUE,
  };
  const say = (text: string | undefined, usual: string): string =>
    text === undefined ? usual : evaluateText(text, known);
  const price = say(ask.maxAmountRequired, PRICE);
  const payTo = say(ask.payTo, payee);
  const payment: Payment = {
    feePayer: evaluateText(pay["fee payer"], known),
    payer,
    payTo,
    asset: say(ask.asset, asset.address),
    decimals: asset.decimals,
    tokenProgram: asset.tokenProgram ?? "",
    amount: /^\d+$/.test(price) ? BigInt(price) : BigInt(PRICE),
  };
  const extra = {
    feePayer: say(ask.feePayer, feePayer),
    ...(ask.memo === undefined ? {} : { memo: ask.memo }),
  };
  const requirements = requirementsOf(payment, {
    network: given.network,
    maxAmountRequired: price,
    extra,
  });
  const tokens = (owner: string): string =>
    associatedAccount(owner, asset.address, payment.tokenProgram);
  const accounts = {
    source: tokens(payer.address),
    destination: tokens(payTo),
    strangerTokens: tokens(STRANGER.address),
    feePayerTokens: tokens(feePayer),
  };
  return { known: { ...known, price, payee: payTo, ...accounts }, payment, requirements };
}

function payeeOf(seller: SolanaCase["given"]["seller"]): string {
  if (seller === "is on the list") return LISTED;
  return seller === "is a program" ? PROGRAM_ACCOUNT : freshKey().address;
}

interface Made {
  readonly lent?: string;
  readonly tables: NonNullable<Plan["tables"]>;
}

/** Balances, token accounts and tables; what was made, by name. */
async function arrange(
  { given }: SolanaCase,
  payment: Payment,
  known: Names,
  node: SolanaNode,
): Promise<Made> {
  const { asset, payer, payTo } = payment;
  const atomic = (text: string): bigint => BigInt(evaluateText(text, known));
  if (given.mint !== "no mint") {
    if (given.tokens !== null) await fund(node, asset, payer.address, atomic(given.tokens));
    if (given.seller !== "has no account") await fund(node, asset, payTo, 0n);
    await fund(node, asset, STRANGER.address, BigInt(PRICE));
  }
  const lamports = atomic(given["buyer lamports"]);
  if (lamports > 0n) node.setLamports(payer.address, lamports);
  const ours = given["fee payer lamports"];
  if (ours !== undefined) node.setLamports(payment.feePayer, atomic(ours));
  const { source = "", destination = "" } = known;
  if (given.frozen !== undefined) node.freeze(given.frozen === "buyer" ? source : destination);
  putNonce(node, payer.address);
  const lent = await lend(given.lent, payment, known, node);
  return { ...lent, tables: putTable(given, known, node) };
}

/** The table's addresses by its own, which is what a client takes it for. */
function putTable(
  { table, "table entries": size = 0, "table account": state }: SolanaCase["given"],
  known: Names,
  node: SolanaNode,
): Made["tables"] {
  if (table === undefined) return {};
  const last = table.map((entry) => evaluateText(entry, known));
  const others = Array.from({ length: Math.max(0, size - last.length) }, () => randomAddress());
  const entries = [...others, ...last];
  const at = node.lookupTable(entries);
  const account = node.account(at);
  if (account === null) throw new Error("a table that was made is there");
  if (state === "is missing") node.setAccount(at, { ...account, lamports: 0n });
  if (state === "belongs to another program") {
    node.setAccount(at, { ...account, owner: SYSTEM_PROGRAM });
  }
  if (state === "is not initialized") {
    node.setAccount(at, { ...account, data: Uint8Array.from(account.data).fill(0, 0, TYPE_BYTES) });
  }
  return { [at]: entries };
}

/** A lookup table begins with what it is. */
const TYPE_BYTES = 4;

/** Adds tokens; also more than the mint's supply could count. */
async function fund(node: SolanaNode, mint: string, owner: string, amount: bigint): Promise<void> {
  const at = await node.fundToken({ mint, owner, amount: 0n });
  const account = node.account(at);
  const token = readTokenAccount(account);
  if (account === null || token === null) throw new Error(`no token account at ${at}`);
  const data = encodeTokenAccount({ ...token, amount: token.amount + amount });
  node.setAccount(at, { ...account, data });
}

/** Tokens of somebody else that the payer may spend. */
async function lend(
  lent: SolanaCase["given"]["lent"],
  { asset, payer }: Payment,
  known: Names,
  node: SolanaNode,
): Promise<Pick<Made, "lent">> {
  if (lent === undefined) return {};
  const owner = evaluateText(lent.by, known);
  const amount = BigInt(evaluateText(lent.amount, known));
  const associated = await node.fundToken({ mint: asset, owner, amount });
  const at = lent.account === "associated" ? associated : ANOTHER_ACCOUNT;
  const account = node.account(associated);
  if (account === null) throw new Error(`no token account at ${associated}`);
  node.setAccount(at, account);
  node.approve(at, payer.address, amount);
  return { lent: at };
}

/** Version, state, authority, nonce, fee: an initialized nonce account that the payer may use. */
function putNonce(node: SolanaNode, authority: string): void {
  const parts = [u32(1), u32(1), fromBase58(authority), fromBase58(NONCE_VALUE), u64(5_000n)];
  const data = Buffer.concat(parts);
  const account = { lamports: 10_000_000n, data, owner: SYSTEM_PROGRAM, executable: false };
  node.setAccount(NONCE_ACCOUNT, account);
}

function spoil(each: SolanaCase, good: string, signers: readonly Keypair[]): string {
  const message = each.message.length === 0 ? good : spoilMessage(good, each.message, signers);
  const signed = each.signed.length === 0 ? message : spoilSigned(message, each.signed);
  return each.text === undefined ? signed : spoilText(signed, each.text);
}

/** The request as text, after `set`, `remove` and `fill`. */
function write(
  each: SolanaCase,
  { paymentPayload, paymentRequirements }: FacilitatorRequest,
  transaction: string,
  names: Names,
): Pick<Scenario, "body" | "networks"> {
  const payload = { transaction };
  const request =
    each.envelope === 2
      ? requestV2(paymentRequirements, payload)
      : structuredClone({
          x402Version: 1,
          paymentPayload: { ...paymentPayload, payload },
          paymentRequirements,
        });
  for (const [pointer, value] of Object.entries(each.set)) {
    const [parent, key] = locate(request, pointer);
    Reflect.set(parent, key, evaluate(value, names));
  }
  for (const pointer of each.remove) {
    const [parent, key] = locate(request, pointer);
    if (!Reflect.deleteProperty(parent, key)) throw new Error(`${pointer} stays`);
  }
  const named = [
    request.paymentPayload,
    memberOf(request.paymentPayload, "accepted"),
    request.paymentRequirements,
  ];
  const networks = named
    .map((each) => memberOf(each, "network"))
    .filter((each) => each !== undefined);
  const body = JSON.stringify(request);
  if (each.fill !== undefined && each.fill < body.length) throw new Error("the body is longer");
  return {
    body: body.padEnd(each.fill ?? 0, " "),
    networks: networks.map(String),
  };
}

/** CAIP-2 (version 2, section 11.1). */
const CAIP2: Readonly<Record<string, string>> = {
  solana: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
  "solana-devnet": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
};

/** As an official seller of version 2 writes it. */
function requestV2(
  { network, maxAmountRequired, resource, description, ...rest }: PaymentRequirements,
  payload: object,
) {
  const accepted = { ...rest, network: CAIP2[network], amount: maxAmountRequired };
  const told = { url: resource, description };
  return structuredClone({
    x402Version: 2,
    paymentPayload: { x402Version: 2, accepted, payload, resource: told },
    paymentRequirements: { ...accepted, extra: { ...accepted.extra } },
  });
}

/** The object that a JSON pointer leads into, and the name of the member there. */
function locate(root: object, pointer: string): [parent: object, key: string] {
  const keys = pointer.slice(1).split("/");
  const last = keys.pop() ?? "";
  let parent: object = root;
  for (const key of keys) {
    const next: unknown = Reflect.get(parent, key);
    if (typeof next !== "object" || next === null) throw new Error(`${pointer} leads nowhere`);
    parent = next;
  }
  return [parent, last];
}
