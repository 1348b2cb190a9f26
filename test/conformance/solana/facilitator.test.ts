/**
 * Every case of the `.yaml` files beside this one, through `POST /verify` and `POST /settle` of a real
 * facilitator before a local node with the real token programs. `solana-case.ts` says what a case may
 * contain, `rules.yaml` what the rules are that it cites.
 */
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { afterAll, describe, expect, test } from "vitest";
import { isErrorCode } from "../../../src/x402/error-code.ts";
import { encodeBase58 } from "../../../src/x402/solana-address.ts";
import { readSolanaTransaction } from "../../../src/x402/solana-transaction.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { testKey } from "../../support/solana-messages.ts";
import { readTokenAccount } from "../../support/solana/token-layout.ts";
import { enact, type Scenario } from "./scenario.ts";
import { readCaseFiles, type ExpectedAnswer, type SolanaCase } from "./solana-case.ts";
import { FEE_PAYERS, spoilNode, Stage, withSlots, type Cast } from "./stage.ts";

/** No answer takes longer, milliseconds: the slowest case waits for a transaction. */
const ANSWER_WITHIN_MS = 5_000;

const endpoints = ["verify", "settle"] as const;
type Endpoint = (typeof endpoints)[number];

const stage = new Stage();
afterAll(() => stage[Symbol.asyncDispose]());

for (const { subject, cases } of readCaseFiles()) {
  describe(subject, () => {
    test.each(cases.map((each) => [`${each.rule.join(", ")}: ${each.name}`, each] as const))(
      "%s",
      (_, each) => play(each),
    );
  });
}

async function play(each: SolanaCase): Promise<void> {
  const cast = await stage.cast(each.given);
  await using undoing = new AsyncDisposableStack();
  const scenario = await enact(each, cast);
  await payBefore(each.given.paid, { cast, scenario }, undoing);
  const before = await look(cast, scenario);
  const answers = await ask(each, cast, scenario);
  const after = await look(cast, scenario);
  for (const endpoint of endpoints) judge(answers[endpoint], each, { endpoint, scenario });
  if (each.expect.settle.code === "valid") {
    await expectOnePayment({ each, cast, scenario, before, after, settled: answers.settle });
    await expectRefusedAgain(each, cast, scenario, after);
  } else {
    expect(after, "nothing was signed, sent or spent").toEqual(before);
    if (each.executable) await expectExecutable(cast, scenario);
  }
}

interface Played {
  readonly cast: Cast;
  readonly scenario: Scenario;
}

/** What was done with the payment, or with another one of the same payer, before the case begins. */
async function payBefore(
  paid: SolanaCase["given"]["paid"],
  { cast, scenario }: Played,
  undoing: AsyncDisposableStack,
): Promise<void> {
  const { node, facilitator } = cast;
  if (paid === "already") await settleDirectly(cast, scenario.original);
  if (paid === "another one already") await settleDirectly(cast, scenario.sibling);
  if (paid === "by somebody else with our key") await settleElsewhere(cast, scenario.original);
  if (paid !== "just now") return;
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  node.resetCalls();
  const settling = onTheWire(facilitator.facilitator).settle(scenario.original, { signal });
  undoing.defer(async () => {
    expect(await withSlots(node, settling)).toMatchObject({ success: true });
  });
  await node.asked("sendTransaction");
}

async function settleDirectly(
  { node, facilitator }: Cast,
  request: FacilitatorRequest,
): Promise<void> {
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const settled = await withSlots(
    node,
    onTheWire(facilitator.facilitator).settle(request, { signal }),
  );
  expect(settled).toMatchObject({ success: true });
}

/** As a facilitator would that has the same key and another ledger. */
async function settleElsewhere({ node }: Cast, request: FacilitatorRequest): Promise<void> {
  const transaction = transactionOf(request);
  const bytes = Buffer.from(transaction.bytes);
  const signature = testKey(FEE_PAYERS[0]).sign(transaction.message);
  bytes.set(signature, transaction.signaturesOffset);
  const options = { encoding: "base64", skipPreflight: true };
  await rpc(node, "sendTransaction", [bytes.toString("base64"), options]);
  node.tick(2);
}

function transactionOf({ paymentPayload }: FacilitatorRequest) {
  const read = readSolanaTransaction(String(Object(paymentPayload.payload).transaction));
  if (!read.ok) throw new Error(read.error.detail);
  return read.value;
}

async function rpc(node: Cast["node"], method: string, params: readonly unknown[]) {
  const response = await fetch(node.rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const { result, error } = Object(await response.json());
  if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
  return Object(result);
}

/** Puts the request to both endpoints, with whatever is wrong with the node meanwhile. */
async function ask(
  each: SolanaCase,
  cast: Cast,
  scenario: Scenario,
): Promise<Record<Endpoint, Answer>> {
  using undoing = new DisposableStack();
  spoilNode(cast.node, each.given.node, undoing);
  const before = await look(cast, scenario);
  const verify = await send("verify", cast, scenario);
  expect(await look(cast, scenario), "verify signs, claims and spends nothing").toEqual(before);
  const settling = send("settle", cast, scenario);
  const isHeld = each.given.paid === "just now";
  return { verify, settle: await (isHeld ? settling : withSlots(cast.node, settling)) };
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>>;
}

async function send(
  endpoint: Endpoint,
  { facilitator }: Cast,
  { body }: Scenario,
): Promise<Answer> {
  const response = await fetch(`${facilitator.url}/${endpoint}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
  });
  const { status, headers } = response;
  return { status, headers, body: { ...Object(await response.json()) } };
}

/** Status, shape and content of one answer. */
function judge(
  { status, headers, body }: Answer,
  each: SolanaCase,
  { endpoint, scenario }: { endpoint: Endpoint; scenario: Scenario },
): void {
  const expected = each.expect[endpoint];
  const said = `/${endpoint} answered ${status} ${JSON.stringify(body)}`;
  expect(headers.get("content-type"), said).toBe("application/json");
  expect(headers.get("cache-control"), said).toBe("no-store");
  if (status === 500) expect(headers.get("retry-after"), said).toMatch(/^[1-9][0-9]*$/);
  const { [toldIn(endpoint, each)]: detail, ...members } = body;
  const wanted = expected.detail && expect.stringContaining(sentenceOf(expected.detail, scenario));
  expect(detail, said).toEqual(wanted);
  const shape = endpoint === "verify" ? verdict : settlement;
  expect({ status, ...members }, said).toEqual({
    status: expected.status,
    ...shape(expected, scenario),
  });
}

/** The member that has our sentence. */
function toldIn(endpoint: Endpoint, { envelope }: SolanaCase): string {
  if (envelope === undefined) return "detail";
  return endpoint === "verify" ? "invalidMessage" : "errorMessage";
}

/** `$name` anywhere in a sentence. */
function sentenceOf(text: string, { names }: Scenario): string {
  return text.replaceAll(/\$([a-zA-Z]+)/g, (_, name: string) => {
    const value = names[name];
    if (value === undefined) throw new Error(`there is no $${name}`);
    return value;
  });
}

/** Protocol section 2.4. */
function verdict(expected: ExpectedAnswer, scenario: Scenario): object {
  const payer = expectedPayer(expected, scenario);
  if (expected.code === "valid") return { isValid: true, payer };
  return { isValid: false, invalidReason: requireCode(expected.code), payer };
}

/** Protocol section 2.3. */
function settlement(expected: ExpectedAnswer, scenario: Scenario): object {
  const payer = expectedPayer(expected, scenario);
  const networks = [...scenario.networks];
  const network = expected.status === 400 ? expect.any(String) : expect.toBeOneOf(networks);
  if (expected.code === "valid") {
    return { success: true, transaction: expect.stringMatching(BASE58), network, payer };
  }
  const errorReason = requireCode(expected.code);
  return { success: false, errorReason, transaction: "", network, payer };
}

/** A signature. */
const BASE58 = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/;

function expectedPayer({ payer, status }: ExpectedAnswer, { payment }: Scenario): string {
  const usual = status === 400 ? "" : "known";
  return (payer ?? usual) === "known" ? payment.payer.address : "";
}

function requireCode(code: string): string {
  if (!isErrorCode(code)) throw new Error(`${code} is not one of the fifteen codes`);
  return code;
}

/** Everything that a refused payment must leave as it was. */
interface World {
  /** Transactions that the node was given; each may have been sent again. */
  readonly sent: number;
  /** Of the payment's fee payer, and of all that are ours. */
  readonly feePayerLamports: bigint;
  readonly ourLamports: bigint;
  /** Atomic units: the payer's, the payee's, a lender's, and ours. */
  readonly sourceTokens: bigint;
  readonly destinationTokens: bigint;
  readonly lentTokens: bigint;
  readonly ourTokens: bigint;
  /** Rows of the ledger: signed ones without a result, and whether the payment has one at all. */
  readonly signed: number;
  readonly isRecorded: boolean;
}

async function look(
  { node, facilitator }: Cast,
  { payment, names, original, transaction }: Scenario,
): Promise<World> {
  const { feePayers, ledger, network } = facilitator;
  const tokensAt = (at = ""): bigint =>
    at === "" ? 0n : (readTokenAccount(node.account(at))?.amount ?? 0n);
  const open = await Promise.all(feePayers.map((each) => ledger.signing.unfinished(network, each)));
  const signed = open.flat().flatMap(({ payments }) => payments);
  const sent = { ...original.paymentPayload, payload: { transaction } };
  return {
    sent: new Set(node.sent).size,
    feePayerLamports: node.lamportsOf(payment.feePayer),
    ourLamports: feePayers.reduce((sum, each) => sum + node.lamportsOf(each), 0n),
    sourceTokens: tokensAt(names["source"]),
    destinationTokens: tokensAt(names["destination"]),
    lentTokens: tokensAt(names["lent"]),
    ourTokens: tokensAt(names["feePayerTokens"]),
    signed: signed.filter(({ state }) => state === "SIGNED").length,
    isRecorded: (await ledger.recall(sent, { binding: "", target: "" })).request !== undefined,
  };
}

interface Settled {
  readonly each: SolanaCase;
  readonly cast: Cast;
  readonly scenario: Scenario;
  readonly before: World;
  readonly after: World;
  readonly settled: Answer;
}

/** Exactly one transaction: what was received, with our signature; it paid once, and cost its fee. */
async function expectOnePayment(played: Settled): Promise<void> {
  const { each, cast, scenario, before, after, settled } = played;
  const { amount } = scenario.payment;
  const { node, facilitator } = cast;
  const transaction = settled.body["transaction"];
  const { meta } = await rpc(node, "getTransaction", [
    transaction,
    { commitment: "confirmed", maxSupportedTransactionVersion: 1 },
  ]);
  expect(meta).toMatchObject({ err: null });
  const fee = BigInt(meta.fee);
  expect(fee, "the cap").toBeLessThanOrEqual(facilitator.capLamports);
  if (each.expect.settle.fee !== undefined) expect(fee).toBe(BigInt(each.expect.settle.fee));
  const isLent = after.lentTokens !== before.lentTokens;
  expect(after).toEqual({
    ...before,
    sent: before.sent + 1,
    feePayerLamports: before.feePayerLamports - fee,
    ourLamports: before.ourLamports - fee,
    ...(isLent
      ? { lentTokens: before.lentTokens - amount }
      : { sourceTokens: before.sourceTokens - amount }),
    destinationTokens: before.destinationTokens + amount,
    isRecorded: true,
  });
  expectSignedInPlace(node.sent.at(-1) ?? "", scenario, transaction);
}

/** Nothing is different from what was received but the fee payer's signature, which names the transaction. */
function expectSignedInPlace(raw: string, { transaction }: Scenario, name: unknown): void {
  const sent = readSolanaTransaction(raw);
  if (!sent.ok) throw new Error(sent.error.detail);
  const { bytes, signatures, signaturesOffset } = sent.value;
  const [ours = new Uint8Array()] = signatures;
  expect(encodeBase58(ours)).toBe(name);
  const received = Buffer.from(transaction, "base64");
  received.set(ours, signaturesOffset);
  expect(Buffer.from(bytes).toString("base64")).toBe(received.toString("base64"));
}

/** Nothing but the refusal stands between the transaction and the chain. */
async function expectExecutable({ node }: Cast, { transaction }: Scenario): Promise<void> {
  const options = { encoding: "base64", commitment: "processed" };
  const { value } = await rpc(node, "simulateTransaction", [transaction, options]);
  expect(value.err, "what comes of it when it is signed").toBeNull();
}

/** One payment is settled for one caller, once. */
async function expectRefusedAgain(
  each: SolanaCase,
  cast: Cast,
  scenario: Scenario,
  settledWorld: World,
): Promise<void> {
  const used = { status: 200, code: "invalid_transaction_state" } as const;
  const refused = {
    verify: { ...used, detail: "the simulated transaction fails" },
    settle: { ...used, detail: "used before" },
  };
  for (const endpoint of endpoints) {
    const again = await withSlots(cast.node, send(endpoint, cast, scenario));
    judge(again, { ...each, expect: refused }, { endpoint, scenario });
  }
  expect(await look(cast, scenario), "the second time moves nothing").toEqual(settledWorld);
}
