import { inspect } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import type { SolanaMechanismOptions } from "../../../../src/mechanism/solana/solana.ts";
import { isSignedBy } from "../../../../src/mechanism/solana/signing.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { decodeBase58, encodeBase58 } from "../../../../src/x402/solana-address.ts";
import { readSolanaTransaction } from "../../../../src/x402/solana-transaction.ts";
import type { FacilitatorRequest } from "../../../../src/x402/x402.ts";
import {
  buildTransaction,
  layOut,
  memo,
  testKey,
  transfer,
  type Plan,
} from "../../../support/solana-messages.ts";
import {
  devnet,
  devnetPayment,
  never,
  openSolanaMechanism,
  requestFor,
  requestOf,
  requirementsOf,
  secretOf,
  type SolanaMechanism,
} from "../../../support/solana-requests.ts";
import { startSolanaNode } from "../../../support/solana/solana-node.ts";

const NOWHERE = ["http://127.0.0.1:9"];
const payment = devnetPayment();
const [feePayer, payer, stranger] = [testKey(1).address, testKey(2).address, testKey(9)];

const open: SolanaMechanism[] = [];
afterAll(async () => {
  for (const each of open) await each.close();
});

function mechanism(members: Partial<SolanaMechanismOptions> = {}): SolanaMechanism {
  const opened = openSolanaMechanism({ rpcUrls: NOWHERE, ...members });
  open.push(opened);
  return opened;
}

const solana = mechanism();

function check(request: FacilitatorRequest, by = solana) {
  const checked = by.check(request, 0);
  if (!checked.ok) throw new Error(`refused: ${checked.error.code}: ${checked.error.detail}`);
  return checked.value;
}

/** `code` of a request that is refused as a whole. */
function refusalOf(request: FacilitatorRequest, by = solana): string {
  const checked = by.check(request, 0);
  return checked.ok ? "read" : checked.error.code;
}

/** The transaction with other bytes from there on, canonical base64 again. */
function spoiled(transaction: string, at: number, bytes: Uint8Array): string {
  const all = Buffer.from(transaction, "base64");
  all.set(bytes, at);
  return all.toString("base64");
}

describe("a payment that keeps every rule", () => {
  test.each([
    ["x402", 0],
    ["x402", "legacy"],
    ["svm", 0],
    ["svm", 1],
    ["phantom", 0],
  ] as const)("by %s, version %s, is judged without the chain", (layout, version) => {
    const checked = check(requestFor(layOut(layout, payment, { version }), payment));
    expect(checked).toMatchObject({ payer, proven: true, fault: null });
    expect(checked.authorization).toMatchObject({
      payer,
      feePayer,
      judged: { payer, tokenProgram: devnet().asset.tokenProgram },
    });
    expect(solana.accountFor(checked)).toBe(feePayer);
  });

  test("is the same whatever stands in the fee payer's place", () => {
    const plain = buildTransaction(layOut("svm", payment));
    const varied = spoiled(plain, 1, new Uint8Array(64).fill(7));
    const hashes = [plain, varied].map((transaction) => {
      const { authorization, fault } = check(requestOf(transaction, requirementsOf(payment)));
      expect(fault).toBeNull();
      return authorization.messageHash;
    });
    expect(hashes[0]).toBe(hashes[1]);
  });
});

describe("a request that names what is not served, or cannot be read", () => {
  const plan = layOut("svm", payment);
  const request = requestFor(plan, payment);

  test("is refused for its version, scheme and network, in that order", () => {
    const { paymentPayload, paymentRequirements } = request;
    const wrong = { ...paymentPayload, x402Version: 3, scheme: "upto", network: "base" };
    const refusals = [
      { ...request, paymentPayload: wrong },
      { ...request, paymentPayload: { ...wrong, x402Version: 1 } },
      { ...request, paymentPayload: { ...wrong, x402Version: 1, scheme: "exact" } },
      { ...request, paymentRequirements: { ...paymentRequirements, scheme: "upto" } },
      { ...request, paymentRequirements: { ...paymentRequirements, network: "solana" } },
    ].map((each) => refusalOf(each));
    expect(refusals).toEqual([
      "invalid_x402_version",
      "invalid_scheme",
      "invalid_network",
      "invalid_scheme",
      "invalid_network",
    ]);
  });

  test.each([
    ["another token", { asset: networkOf("solana").asset.address }],
    ["an amount that is none", { maxAmountRequired: "0x10" }],
    ["a fee payer that is not ours", { extra: { feePayer: stranger.address } }],
    ["no fee payer", { extra: {} }],
  ])("is refused for requirements with %s", (_what, changes) => {
    expect(refusalOf(requestFor(plan, payment, changes))).toBe("invalid_payment_requirements");
  });

  test("is refused for a payee who is not on the list, and addresses of other networks do not matter", () => {
    const [payTo, other] = [payment.payTo, "0x036CbD53842c5426634e7929541eC2318f3dCF7e"];
    expect(refusalOf(request, mechanism({ allowPayTo: [other, payTo] }))).toBe("read");
    expect(refusalOf(request, mechanism({ allowPayTo: [other] }))).toBe(
      "invalid_payment_requirements",
    );
  });

  test("is refused for bytes that are no transaction", () => {
    const requirements = requirementsOf(payment);
    const transaction = buildTransaction(plan);
    for (const text of ["AAAA", transaction.slice(0, -4), spoiled(transaction, 0, Buffer.of(9))]) {
      expect(refusalOf(requestOf(text, requirements))).toBe("invalid_payload");
    }
    const paymentPayload = { ...request.paymentPayload, payload: { transaction: 5 } };
    expect(refusalOf({ ...request, paymentPayload })).toBe("invalid_payload");
  });
});

describe("a payment that breaks a rule", () => {
  test("is told its payer, once the signature is good", () => {
    const dear = requestFor(layOut("svm", { ...payment, amount: 9_999n }), payment);
    expect(check(dear)).toMatchObject({
      payer,
      proven: true,
      fault: { code: "invalid_payload", detail: expect.stringContaining("9999") },
      authorization: { judged: undefined },
    });
  });

  test("is told no payer when the signature is another's, whatever else is wrong", () => {
    const plan = layOut("svm", { ...payment, amount: 9_999n });
    const transaction = spoiled(buildTransaction(plan), 65, new Uint8Array(64).fill(1));
    expect(check(requestOf(transaction, requirementsOf(payment)))).toMatchObject({
      payer: "",
      proven: true,
      fault: { code: "invalid_payload", detail: expect.stringContaining("signature") },
    });
  });

  test("is refused when its fee payer is not the one that the requirements name", () => {
    const both = mechanism({ keys: [secretOf(1), secretOf(8)] });
    const other = layOut("svm", { ...payment, feePayer: testKey(8).address });
    expect(check(requestFor(other, payment), both)).toMatchObject({
      payer,
      fault: { code: "invalid_payload", detail: expect.stringContaining("fee payer") },
    });
  });

  test("is refused when one signs who is not needed, or the payer pays the network fee", () => {
    const plan = layOut("svm", payment);
    const crowd: Plan = {
      ...plan,
      instructions: [...plan.instructions, memo("hello", [stranger.address])],
      signers: [...plan.signers, stranger],
    };
    const alone: Plan = {
      ...plan,
      feePayer: payer,
      instructions: [transfer(payment)],
    };
    for (const each of [crowd, alone]) {
      expect(check(requestFor(each, payment))).toMatchObject({
        payer: "",
        fault: { code: "invalid_payload" },
      });
    }
  });

  test("may keep its lookup tables to the chain, but not its signature", () => {
    const table = testKey(40).address;
    const plan = { ...layOut("svm", payment), tables: { [table]: [payment.asset] } };
    const transaction = buildTransaction(plan);
    expect(check(requestOf(transaction, requirementsOf(payment)))).toMatchObject({
      payer,
      fault: null,
      authorization: { judged: undefined },
    });
    const forged = spoiled(transaction, 65, new Uint8Array(64).fill(1));
    expect(check(requestOf(forged, requirementsOf(payment)))).toMatchObject({
      fault: { code: "invalid_payload" },
    });
  });
});

test("a payment in a token whose mint has not been read yet is left to the chain", () => {
  const asset = { ...devnet().asset, tokenProgram: null };
  const checked = check(
    requestFor(layOut("svm", payment), payment),
    mechanism({ assets: [asset] }),
  );
  expect(checked).toMatchObject({ fault: null, authorization: { judged: undefined } });
});

test("an old payment is read whatever the configuration allows now", () => {
  const asset = { ...devnet().asset, symbol: "EURC", address: testKey(60).address };
  const strict = mechanism({
    assets: [asset],
    keys: [secretOf(8)],
    allowPayTo: [],
    maxFeeLamports: 1n,
  });
  const request = requestFor(layOut("svm", { ...payment, amount: 1n }), payment);
  expect(strict.check(request, 0).ok).toBe(false);
  expect(strict.parse(request)).toMatchObject({ ok: true, value: { payer, feePayer } });
});

describe("preparing a settlement", () => {
  test.each(["legacy", 0, 1] as const)(
    "signs the bytes that were received, of version %s, and changes nothing else",
    async (version) => {
      await using node = await startSolanaNode({ slotMs: null });
      node.fundSol(feePayer, 1_000_000_000n);
      const { asset: mint, amount, payTo } = payment;
      await node.fundToken({ mint, owner: payer, amount });
      await node.fundToken({ mint, owner: payTo, amount: 0n });
      const by = mechanism({ rpcUrls: [node.rpcUrl] });
      const plan = { ...layOut("svm", payment, { version }), blockhash: node.blockhash };
      const checked = check(requestFor(plan, payment), by);
      const inspected = await by.inspect(checked, never);
      if (!inspected.ok) throw new Error(inspected.error.detail);
      const { draft, leftOut } = await by.prepare([inspected.value], feePayer, never);
      expect(leftOut).toEqual([]);
      const signed = draft?.sign(7);
      const received = checked.authorization.transaction;
      const sent = readSolanaTransaction(signed?.raw ?? "");
      if (!sent.ok) throw new Error(sent.error.detail);
      const [first, second] = sent.value.signatures;
      expect(signed).toMatchObject({ account: feePayer, accountNonce: 7 });
      expect(signed?.transaction).toBe(encodeBase58(first ?? new Uint8Array()));
      expect(isSignedBy(received.message, first ?? new Uint8Array(), feePayer)).toBe(true);
      expect(second).toEqual(received.signatures[1]);
      expect(sent.value.message).toEqual(received.message);
    },
  );

  test("is refused for what was not judged, what was found wanting, and another account", async () => {
    const asGood = <Each>(each: Each) => ({ ...each, fault: null });
    const good = asGood(check(requestFor(layOut("svm", payment), payment)));
    const bad = check(requestFor(layOut("svm", { ...payment, amount: 1n }), payment));
    const tables = { [testKey(40).address]: [payment.asset] };
    const open = check(requestFor({ ...layOut("svm", payment), tables }, payment));
    const { judged } = good.authorization;
    const claimed = { ...bad, authorization: { ...bad.authorization, judged } };
    for (const each of [bad, open, claimed]) {
      await expect(solana.prepare([asGood(each)], feePayer, never)).rejects.toThrow(/not judged/);
    }
    await expect(solana.prepare([good], stranger.address, never)).rejects.toThrow(TypeError);
    const [both, ours] = [mechanism({ keys: [secretOf(1), secretOf(8)] }), testKey(8).address];
    const other = asGood(check(requestFor(layOut("svm", payment), payment), both));
    await expect(both.prepare([other], ours, never)).rejects.toThrow(/not the payment's fee payer/);
    await expect(solana.prepare([good, good], feePayer, never)).rejects.toThrow(TypeError);
    await expect(solana.prepare([], feePayer, never)).rejects.toThrow(TypeError);
  });
});

describe("the mechanism", () => {
  test("says what it is, and that its transactions stand alone", async () => {
    expect(solana.kind).toEqual({
      x402Version: 1,
      scheme: "exact",
      network: "solana-devnet",
      extra: { feePayer },
    });
    expect(solana.accounts).toEqual([feePayer]);
    expect(solana.maxTogether).toBe(1);
    expect(solana.rules.isOrdered).toBe(false);
    expect(await solana.accountNonce(feePayer, never)).toBe(0);
    const submission = { variants: [], authorizations: [] };
    expect(await solana.raise(submission, never)).toBeUndefined();
  });

  test("refuses options that cannot work, and repeats no key", () => {
    const secret = secretOf(1);
    const mixed = secret.slice(0, 64) + secretOf(2).slice(64);
    for (const key of ["", secret.slice(1), `0x${secret}`, mixed]) {
      const failed = (): unknown => mechanism({ keys: [key] });
      expect(failed).toThrow(TypeError);
      expect(failed).not.toThrow(secret.slice(2, 20));
    }
    expect(() => mechanism({ keys: [] })).toThrow("solana-devnet needs a private key");
    expect(() => mechanism({ rpcUrls: [] })).toThrow("solana-devnet needs an RPC endpoint");
    expect(() => mechanism({ rpcUrls: ["ftp://127.0.0.1"] })).toThrow(TypeError);
  });

  test("shows no key to a logger or a debugger", () => {
    const shown = inspect(solana, { depth: 20, showHidden: true }) + JSON.stringify(solana);
    expect(shown).not.toContain(secretOf(1).slice(0, 64));
    expect(shown).toContain(feePayer);
  });
});

test.each(["solana", "solana-devnet"] as const)(
  "the genesis hash of %s is 32 bytes, and begins with what CAIP-2 calls the network",
  (name) => {
    const network = networkOf(name);
    if (network.kind !== "solana") throw new Error(`${name} is a Solana network`);
    expect(network.caip2).toBe(`solana:${network.genesisHash.slice(0, 32)}`);
    expect(decodeBase58(network.genesisHash, 32)).toBeDefined();
  },
);
