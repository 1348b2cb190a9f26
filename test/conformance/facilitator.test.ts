/**
 * Every case of the `.yaml` files beside this one, through `POST /verify` and `POST /settle` of a real
 * facilitator before a real node with the real token. `conformance-case.ts` says what a case may contain.
 */
import { decodeEventLog, erc20Abi, getAddress, parseAbi, type Address, type Log } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ERROR_CODES, isErrorCode } from "../../src/x402/error-code.ts";
import { startChain, type Chain } from "../support/chain.ts";
import {
  requirementsFor,
  startFacilitator,
  type FacilitatorSetup,
  type RunningFacilitator,
} from "../support/facilitator.ts";
import { freshAccount } from "../support/payer.ts";
import { readCaseFiles, type ConformanceCase, type ExpectedAnswer } from "./conformance-case.ts";
import { startFaultyNode, type FaultyNode } from "./faulty-node.ts";
import { evaluateText } from "./references.ts";
import { enact, removeCode, type Scenario } from "./scenario.ts";

/** No answer takes longer, milliseconds: the slowest case waits for a transaction. */
const ANSWER_WITHIN_MS = 5_000;
const BEARER = "open-sesame";

const endpoints = ["verify", "settle"] as const;
type Endpoint = (typeof endpoints)[number];

let chain: Chain;
const closing = new AsyncDisposableStack();
/** The only payee of the facilitator `one payee`. */
const listed = freshAccount().address;
/** Where the facilitators' clocks stand, Unix milliseconds; undefined: they run. */
let stopped: number | undefined;
const clock = () => stopped ?? Date.now();

beforeAll(async () => {
  chain = closing.use(await startChain());
});

afterAll(() => closing.disposeAsync());

for (const { subject, cases } of readCaseFiles()) {
  describe(subject, () => {
    test.each(cases.map((each) => [`${each.name} (${each.cites})`, each] as const))(
      "%s",
      (_, each) => play(each),
    );
  });
}

test("every code that a facilitator can give is expected of both endpoints", () => {
  const cases = readCaseFiles().flatMap((file) => file.cases);
  const expected = new Set(
    cases.flatMap(({ expect }) => [`verify ${expect.verify.code}`, `settle ${expect.settle.code}`]),
  );
  const possible = ERROR_CODES.flatMap((code) => [`verify ${code}`, `settle ${code}`]);
  const missing = possible.filter((code) => !expected.has(code));
  // A resource server's word; and each endpoint has its own for what is not the payment's fault.
  expect(missing).toEqual([
    "verify invalid_scheme",
    "settle invalid_scheme",
    "settle unexpected_verify_error",
    "verify unexpected_settle_error",
  ]);
});

async function play(each: ConformanceCase): Promise<void> {
  const { facilitator, node } = await facilitatorFor(each);
  await using undoing = new AsyncDisposableStack();
  if (each.given.clock !== undefined) {
    stopped = (Math.floor(Date.now() / 1000) + each.given.clock) * 1000;
    undoing.defer(() => {
      stopped = undefined;
    });
  }
  const now = Math.floor(clock() / 1000);
  const stage = { chain, requirements: requirementsFor(chain), now, listed };
  const scenario = await enact(each, stage, undoing);
  const before = await look(facilitator, scenario);
  const answers = await ask(each, scenario, facilitator, node);
  const after = await look(facilitator, scenario);

  for (const endpoint of endpoints) {
    judge(answers[endpoint], each, { endpoint, scenario });
  }
  if (each.expect.settle.code === "valid") {
    await expectOneTransfer({ before, after, settled: answers.settle, facilitator, scenario });
    await expectRefusedAgain(each, scenario, facilitator, after);
  } else {
    expect(after, "nothing was broadcast and no balance moved").toEqual(before);
  }
}

/** Puts the request to both endpoints, with whatever is wrong with the chain meanwhile. */
async function ask(
  each: ConformanceCase,
  scenario: Scenario,
  facilitator: RunningFacilitator,
  node: FaultyNode | undefined,
): Promise<Record<Endpoint, Answer>> {
  await using undoing = new AsyncDisposableStack();
  await removeCode(each.given.missing, chain, undoing);
  if (node !== undefined) {
    const usual = node.fault;
    node.fault = each.given.node;
    undoing.defer(() => {
      node.fault = usual;
    });
  }
  const before = await facilitator.unfinished();
  const verify = await send("verify", each, { scenario, facilitator });
  expect(await facilitator.unfinished(), "verify claims nothing").toEqual(before);
  expect(await isRecorded(facilitator, scenario), "verify claims nothing").toBe(false);
  const settle = await send("settle", each, { scenario, facilitator });
  return { verify, settle };
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Undefined where there was no body. */
  readonly body: Record<string, unknown> | undefined;
}

async function send(
  endpoint: Endpoint,
  { http }: ConformanceCase,
  { scenario, facilitator }: { scenario: Scenario; facilitator: RunningFacilitator },
): Promise<Answer> {
  const { method, headers, encoding } = http;
  const path = http.path.replaceAll("$endpoint", `/${endpoint}`);
  const { origin } = new URL(facilitator.url);
  const base = http.path.startsWith("$endpoint") ? facilitator.url : origin;
  const response = await fetch(`${base}${path}`, {
    method,
    headers,
    body: method === "GET" || method === "HEAD" ? null : Buffer.from(scenario.body, encoding),
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
  });
  const text = await response.text();
  const body: unknown = text === "" ? undefined : JSON.parse(text);
  if (body !== undefined && (typeof body !== "object" || body === null)) {
    throw new Error(`answered ${text}`);
  }
  return { status: response.status, headers: response.headers, body: body && { ...body } };
}

/** Status, shape and content of one answer. */
function judge(
  { status, headers, body }: Answer,
  each: ConformanceCase,
  { endpoint, scenario }: { endpoint: Endpoint; scenario: Scenario },
): void {
  const expected = each.expect[endpoint];
  const said = `/${endpoint} answered ${status} ${JSON.stringify(body)}`;
  for (const [name, value] of Object.entries(expected.headers)) {
    expect(headers.get(name), `${name} of ${said}`).toBe(value);
  }
  expect(headers.get("content-type"), said).toBe("application/json");
  expect(headers.get("cache-control"), said).toBe("no-store");
  if (status === 500) expect(headers.get("retry-after"), said).toMatch(/^[1-9][0-9]*$/);
  if (expected.code === undefined) {
    expect(status, said).toBe(expected.status);
    if (each.http.method !== "HEAD") expect(body, said).toEqual({ error: expect.any(String) });
    return;
  }
  const { detail, ...members } = body ?? {};
  if (detail !== undefined) expect(detail, said).toMatch(/^\S.*\S$/);
  const shape = endpoint === "verify" ? verdict : settlement;
  expect({ status, ...members }, said).toEqual({
    status: expected.status,
    ...shape(expected, scenario),
  });
}

/** Protocol section 2.4. */
function verdict(expected: ExpectedAnswer, scenario: Scenario): object {
  const payer = payerOf(expected, scenario);
  if (expected.code === "valid") return { isValid: true, payer };
  return { isValid: false, invalidReason: requireCode(expected.code), payer };
}

/** Protocol section 2.3. */
function settlement(expected: ExpectedAnswer, scenario: Scenario): object {
  const payer = payerOf(expected, scenario);
  const network =
    expected.status === 400 ? expect.any(String) : expect.toBeOneOf(scenario.networks);
  if (expected.code === "valid") {
    return {
      success: true,
      transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      network,
      payer,
    };
  }
  const errorReason = requireCode(expected.code);
  return { success: false, errorReason, transaction: "", network, payer };
}

function payerOf({ payer, status }: ExpectedAnswer, { names }: Scenario): string {
  return evaluateText(payer ?? (status === 400 ? "" : "$payer"), names);
}

function requireCode(code: string | undefined): string {
  if (!isErrorCode(code)) throw new Error(`${code} is not one of the fifteen codes`);
  return code;
}

/** Everything that a refused payment must leave as it was. */
interface World {
  readonly signerTransactions: unknown;
  readonly sent: number;
  readonly payerBalance: bigint;
  readonly payeeBalance: bigint;
  readonly unfinished: number;
  readonly recorded: boolean;
}

async function look(facilitator: RunningFacilitator, scenario: Scenario): Promise<World> {
  const { signer, rpcCalls } = facilitator;
  const { payer, payee } = scenario;
  const [signerTransactions, payerBalance, payeeBalance, unfinished, recorded] = await Promise.all([
    chain.rpc("eth_getTransactionCount", [signer, "pending"]),
    chain.balanceOf(payer),
    chain.balanceOf(payee as Address),
    facilitator.unfinished(),
    isRecorded(facilitator, scenario),
  ]);
  const methods = ["eth_sendRawTransaction", "eth_sendRawTransactionSync"];
  const sent = methods.reduce((sum, method) => sum + (rpcCalls.get(method) ?? 0), 0);
  const payments = unfinished.flatMap((submission) => submission.payments);
  const open = payments.filter(({ state }) => state === "SIGNED").length;
  return { signerTransactions, sent, payerBalance, payeeBalance, unfinished: open, recorded };
}

/** Whether the ledger holds a claim of this payment. */
async function isRecorded({ ledger }: RunningFacilitator, { payment }: Scenario): Promise<boolean> {
  return (await ledger.recall(payment, { binding: "", target: "" })).request !== undefined;
}

interface Settled {
  readonly before: World;
  readonly after: World;
  readonly settled: Answer;
  readonly facilitator: RunningFacilitator;
  readonly scenario: Scenario;
}

const events = [
  ...erc20Abi,
  ...parseAbi(["event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)"]),
];

/** Exactly one transaction of ours, with exactly the authorized transfer, moved the money once. */
async function expectOneTransfer(played: Settled): Promise<void> {
  const { before, after, settled, facilitator, scenario } = played;
  const { payer, payment } = scenario;
  const { to, value, nonce } = payment.payload.authorization;
  const amount = BigInt(value);
  // On a busy machine the same bytes may be sent once more.
  expect(after.sent).toBeGreaterThan(before.sent);
  expect(after).toEqual({
    signerTransactions: `0x${(Number(before.signerTransactions) + 1).toString(16)}`,
    sent: after.sent,
    payerBalance: before.payerBalance - amount,
    payeeBalance: before.payeeBalance + amount,
    unfinished: 0,
    recorded: true,
  });
  const hash = settled.body?.["transaction"];
  const receipt = await chain.rpc("eth_getTransactionReceipt", [hash]);
  expect(receipt).toMatchObject({
    status: "0x1",
    from: facilitator.signer.toLowerCase(),
    to: chain.asset.toLowerCase(),
  });
  const { logs } = receipt as { logs: readonly Log[] };
  const said = logs.map(({ topics, data }) => decodeEventLog({ abi: events, topics, data }));
  expect(said).toEqual([
    { eventName: "AuthorizationUsed", args: { authorizer: payer, nonce: nonce.toLowerCase() } },
    { eventName: "Transfer", args: { from: payer, to: getAddress(to), value: amount } },
  ]);
}

/** One payment is settled for one caller, once. */
async function expectRefusedAgain(
  each: ConformanceCase,
  scenario: Scenario,
  facilitator: RunningFacilitator,
  settledWorld: World,
): Promise<void> {
  const again = await send("settle", each, { scenario, facilitator });
  const refused = { status: 200, code: "invalid_transaction_state", headers: {} } as const;
  judge(
    again,
    { ...each, expect: { verify: refused, settle: refused } },
    { endpoint: "settle", scenario },
  );
  expect(await look(facilitator, scenario), "the second /settle moves nothing").toEqual(
    settledWorld,
  );
}

interface Cast {
  readonly facilitator: RunningFacilitator;
  /** The node that it sees, where that one can be told to fail. */
  readonly node?: FaultyNode;
}

const cast = new Map<string, Promise<Cast>>();

/** Facilitators are started when the first case needs them, and serve all others after it. */
function facilitatorFor({ given }: ConformanceCase): Promise<Cast> {
  const fromTheStart = given.node === "another chain" || given.node === "never reached";
  const node = fromTheStart ? given.node : given.node && "faulty";
  const name = node ?? given.facilitator;
  const known = cast.get(name);
  if (known !== undefined) return known;
  const started = node === undefined ? open(setups[given.facilitator]) : openBefore(given.node);
  cast.set(name, started);
  return started;
}

const setups: Record<ConformanceCase["given"]["facilitator"], Partial<FacilitatorSetup>> = {
  open: {},
  guarded: { basePath: "/x402", bearer: BEARER },
  "one payee": { payTo: [listed] },
};

async function open(setup: Partial<FacilitatorSetup>): Promise<Cast> {
  return { facilitator: closing.use(await startFacilitator({ chain, clock, looks: 1, ...setup })) };
}

/** Faults that concern the start-up checks are there from the start; others come with each case. */
async function openBefore(fault: FaultyNode["fault"]): Promise<Cast> {
  const node = await startFaultyNode(chain.rpcUrl);
  closing.defer(() => node.close());
  if (fault === "another chain" || fault === "never reached") node.fault = fault;
  const { facilitator } = await open({ rpcUrl: node.url });
  return { facilitator, node };
}
