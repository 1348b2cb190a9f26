import { DecodedSolanaPayload } from "../../../src/x402/solana-transaction.ts";
import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Message } from "../../../src/mechanism/solana/message.ts";
import {
  isEvmPayload,
  payerOf,
  paymentKey,
  samePayment,
  solanaTransactionOf,
} from "../../../src/x402/payment-key.ts";
import { parseFacilitatorRequest } from "../../../src/x402/schema.ts";
import { readSolanaTransaction } from "../../../src/x402/solana-transaction.ts";
import type { FacilitatorRequest, PaymentPayload } from "../../../src/x402/x402.ts";
import { encodeTransaction, signaturesOf } from "../mechanism/solana/message-encoder.ts";
import { paymentMessage, testKey } from "../mechanism/solana/payment-message.ts";
import { exampleRequest } from "./example-request.ts";

type Example = ReturnType<typeof exampleRequest>;

function keyOf(request: FacilitatorRequest): string {
  const key = paymentKey(request);
  return key.ok ? key.value : key.error.code;
}

/** The key of the example after a change. */
function changed(change: (request: Example) => void): string {
  const request = exampleRequest();
  change(request);
  return keyOf(request);
}

const original = keyOf(exampleRequest());

describe("a payment's key", () => {
  it("is network, asset, payer and nonce in lower case", () => {
    expect(original).toBe(
      "base-sepolia/0x036cbd53842c5426634e7929541ec2318f3dcf7e/" +
        "0x857b06519e91e3a54538791bdbb0e22373e36b66/" +
        "0xf3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480",
    );
  });

  it("is the same whatever the letter case of addresses and nonce", () => {
    const key = changed(({ paymentPayload, paymentRequirements }) => {
      const { authorization } = paymentPayload.payload;
      authorization.from = authorization.from.toLowerCase();
      authorization.nonce = `0x${authorization.nonce.slice(2).toUpperCase()}`;
      paymentRequirements.asset = paymentRequirements.asset.toLowerCase();
    });
    expect(key).toBe(original);
  });

  it.each<[string, (request: Example) => void]>([
    ["signature", ({ paymentPayload }) => (paymentPayload.payload.signature = "0x00")],
    ["price", ({ paymentRequirements }) => (paymentRequirements.maxAmountRequired = "1")],
    ["resource", ({ paymentRequirements }) => (paymentRequirements.resource = "https://a.b/c")],
    ["amount", ({ paymentPayload }) => (paymentPayload.payload.authorization.value = "9")],
  ])("is the same with another %s", (_, change) => {
    expect(changed(change)).toBe(original);
  });

  it.each<[string, (request: Example) => void]>([
    ["network", ({ paymentPayload }) => (paymentPayload.network = "base")],
    ["asset", ({ paymentRequirements }) => (paymentRequirements.asset = `0x${"1".repeat(40)}`)],
    [
      "payer",
      ({ paymentPayload }) => (paymentPayload.payload.authorization.from = `0x${"1".repeat(40)}`),
    ],
    [
      "nonce",
      ({ paymentPayload }) => (paymentPayload.payload.authorization.nonce = `0x${"1".repeat(64)}`),
    ],
  ])("is another one with another %s", (_, change) => {
    expect(changed(change)).not.toBe(original);
  });

  it.each([
    ["an unknown network", "exact", "nowhere", "invalid_network"],
    ["Solana", "exact", "solana", "invalid_payload"],
    ["an unknown scheme", "upto", "base", "unsupported_scheme"],
  ])("does not exist for %s, whatever the payload imitates", (_, scheme, network, code) => {
    const payload = fc.record({ signature: fc.jsonValue(), authorization: fc.jsonValue() });
    fc.assert(
      fc.property(payload, (imitation) => {
        const { paymentRequirements } = exampleRequest();
        const paymentPayload = { x402Version: 1, scheme, network, payload: imitation };
        expect(keyOf({ paymentPayload, paymentRequirements })).toBe(code);
      }),
    );
  });
});

/** Whether the example and the example after a change are the same payment, asked both ways. */
function same(change: (payment: Example["paymentPayload"]) => void): boolean {
  const [{ paymentPayload: left }, { paymentPayload: right }] = [
    exampleRequest(),
    exampleRequest(),
  ];
  change(right);
  expect(samePayment(right, left)).toBe(samePayment(left, right));
  return samePayment(left, right);
}

const shout = (hex: string): string => `0x${hex.slice(2).toUpperCase()}`;

describe("two payments", () => {
  it("are the same whatever the letter case of addresses, nonce and signature", () => {
    expect(same(() => undefined)).toBe(true);
    const loud = same(({ payload }) => {
      const { from, to, nonce } = payload.authorization;
      Object.assign(payload.authorization, {
        from: shout(from),
        to: shout(to),
        nonce: shout(nonce),
      });
      payload.signature = shout(payload.signature);
    });
    expect(loud).toBe(true);
  });

  it.each<[string, (payment: Example["paymentPayload"]) => void]>([
    ["network", (payment) => (payment.network = "base")],
    ["signature", ({ payload }) => (payload.signature = `0x${"cd".repeat(65)}`)],
    ["payer", ({ payload }) => (payload.authorization.from = `0x${"1".repeat(40)}`)],
    ["payee", ({ payload }) => (payload.authorization.to = `0x${"1".repeat(40)}`)],
    ["nonce", ({ payload }) => (payload.authorization.nonce = `0x${"1".repeat(64)}`)],
    ["amount", ({ payload }) => (payload.authorization.value = "9")],
    ["start", ({ payload }) => (payload.authorization.validAfter = "9")],
    ["end", ({ payload }) => (payload.authorization.validBefore = "9")],
  ])("are two with another %s", (_, change) => {
    expect(same(change)).toBe(false);
  });

  it.each([
    ["on Solana", "exact", "solana"],
    ["on an unknown network", "exact", "nowhere"],
    ["of an unknown scheme", "upto", "base-sepolia"],
  ])("are never the same %s, whatever the payload imitates", (_, scheme, network) => {
    const { payload } = exampleRequest().paymentPayload;
    const payloads = fc.oneof(
      fc.constant(payload),
      fc.record({ signature: fc.jsonValue(), authorization: fc.jsonValue() }),
      fc.record({ transaction: fc.string() }),
    );
    fc.assert(
      fc.property(payloads, (each) => {
        const payment = { x402Version: 1, scheme, network, payload: each };
        expect(samePayment(payment, payment)).toBe(false);
      }),
    );
  });
});

describe("the payer of a payment", () => {
  it("is the one that the authorization names, as it is spelled", () => {
    expect(payerOf(exampleRequest().paymentPayload)).toBe(
      "0x857b06519E91e3A54538791bDbb0E22373e36b66",
    );
  });

  it("is empty where the payload names no address, and nothing else is repeated", () => {
    const { paymentPayload } = exampleRequest();
    const strange = [null, 1, "x", [], {}, { from: 1 }, { from: null }, { from: "<script>" }];
    for (const authorization of strange) {
      expect(payerOf({ ...paymentPayload, payload: { authorization } })).toBe("");
    }
    expect(payerOf({ ...paymentPayload, payload: { transaction: "AA==" } })).toBe("");
    expect(payerOf({ ...paymentPayload, payload: {} })).toBe("");
  });
});

describe("the kind of a parsed payload", () => {
  it("is told by its members", () => {
    expect(isEvmPayload(exampleRequest().paymentPayload.payload)).toBe(true);
    const solana = exampleRequest();
    const paymentPayload = {
      ...solana.paymentPayload,
      network: "solana",
      payload: { ...solana.paymentPayload.payload, transaction: "AA==" },
    };
    const request = parseFacilitatorRequest({ ...solana, paymentPayload });
    expect(request.ok && isEvmPayload(request.value.paymentPayload.payload)).toBe(false);
  });
});

/** A payment on Solana with that transaction. */
function solanaPayment(transaction: string, network = "solana"): PaymentPayload {
  return { x402Version: 1, scheme: "exact", network, payload: { transaction } };
}

function solanaKey(transaction: string, network = "solana"): string {
  const { paymentRequirements } = exampleRequest();
  return keyOf({ paymentPayload: solanaPayment(transaction, network), paymentRequirements });
}

/** With a signature of the fee payer that stands for a number. */
function withFeePayerSignature(message: Message, number: number): string {
  const signature = createHash("sha512").update(String(number)).digest();
  return encodeTransaction(message, signaturesOf(2).with(0, signature));
}

describe.each(["legacy", 0, 1] as const)("a Solana payment of version %s", (version) => {
  const message = paymentMessage({ version });
  const text = encodeTransaction(message);

  it("has the key of its network and the hash of its message", () => {
    const transaction = readSolanaTransaction(text);
    const signed = transaction.ok ? transaction.value.message : new Uint8Array(0);
    const hash = createHash("sha256").update(signed).digest("hex");
    expect(solanaKey(text)).toBe(`solana/${hash}`);
    expect(solanaKey(text, "solana-devnet")).toBe(`solana-devnet/${hash}`);
  });

  it("has one key, and is one payment, whatever the fee payer's signature", () => {
    const texts = Array.from({ length: 1_000 }, (_, number) =>
      withFeePayerSignature(message, number),
    );
    expect(new Set(texts).size).toBe(1_000);
    expect(new Set(texts.map((each) => solanaKey(each)))).toEqual(new Set([solanaKey(text)]));
    for (const each of texts) {
      expect(samePayment(solanaPayment(each), solanaPayment(text))).toBe(true);
    }
  });

  it("has the same key with another signature of the payer, and is not the same payment", () => {
    const other = encodeTransaction(message, signaturesOf(3).toSpliced(1, 1));
    expect(solanaKey(other)).toBe(solanaKey(text));
    expect(samePayment(solanaPayment(other), solanaPayment(text))).toBe(false);
    expect(samePayment(solanaPayment(text), solanaPayment(other))).toBe(false);
  });

  it.each<[string, Message]>([
    ["blockhash", { ...message, blockhash: testKey("another blockhash") }],
    ["payer", paymentMessage({ version, payer: testKey("another payer") })],
    ["memo", paymentMessage({ version, memoBytes: 31 })],
    ["header", { ...message, readonlyUnsigned: 2 }],
  ])("is another one, with another key, with another %s", (_, other) => {
    const changed = encodeTransaction(other);
    expect(solanaKey(changed)).toMatch(/^solana\/[0-9a-f]{64}$/);
    expect(solanaKey(changed)).not.toBe(solanaKey(text));
    expect(samePayment(solanaPayment(changed), solanaPayment(text))).toBe(false);
  });

  it("is another one on another network", () => {
    const [main, test] = [solanaPayment(text), solanaPayment(text, "solana-devnet")];
    expect(samePayment(main, test)).toBe(false);
    expect(samePayment(test, { ...test })).toBe(true);
  });

  it("has no key in another spelling of base64", () => {
    const bare = text.replace(/=+$/, "");
    const others = [`${bare}\n`, ` ${text}`, `${text}====`, `${bare}=A`, text.replace("A", "-")];
    for (const other of text === bare ? others : [...others, bare]) {
      expect(solanaKey(other)).toBe("invalid_payload");
      expect(samePayment(solanaPayment(other), solanaPayment(text))).toBe(false);
    }
  });

  it("names the second of two signers as its payer", () => {
    expect(payerOf(solanaPayment(text))).toBe(message.keys[1]);
    for (const requiredSignatures of [1, 3]) {
      const other = solanaPayment(encodeTransaction({ ...message, requiredSignatures }));
      expect(payerOf(other)).toBe("");
      expect(samePayment(other, other)).toBe(false);
    }
  });

  it("is read once where it was decoded", () => {
    const payment = { ...solanaPayment(text), payload: new DecodedSolanaPayload(text) };
    const read = solanaTransactionOf(payment);
    payerOf(payment);
    expect(solanaTransactionOf({ ...payment })).toBe(read);
  });
});

describe("what is not a Solana payment", () => {
  const text = encodeTransaction(paymentMessage({ version: 0 }));

  it.each<[string, Partial<PaymentPayload>]>([
    ["a transaction that is none", { payload: { transaction: "AAAA" } }],
    ["an empty transaction", { payload: { transaction: "" } }],
    ["a transaction that is no text", { payload: { transaction: 1 } }],
    ["no transaction", { payload: {} }],
    ["an EVM authorization", { payload: exampleRequest().paymentPayload.payload }],
  ])("has neither key nor payer: %s", (_, change) => {
    const paymentPayload = { ...solanaPayment(text), ...change };
    const { paymentRequirements } = exampleRequest();
    expect(keyOf({ paymentPayload, paymentRequirements })).toBe("invalid_payload");
    expect(payerOf(paymentPayload)).toBe("");
    expect(samePayment(paymentPayload, paymentPayload)).toBe(false);
  });

  it("has no key under another scheme, or on an EVM network", () => {
    const { paymentRequirements } = exampleRequest();
    const [other, evm] = [{ ...solanaPayment(text), scheme: "upto" }, solanaPayment(text, "base")];
    expect(keyOf({ paymentPayload: other, paymentRequirements })).toBe("unsupported_scheme");
    expect(keyOf({ paymentPayload: evm, paymentRequirements })).toBe("invalid_network");
    expect(samePayment(other, other)).toBe(false);
    expect(samePayment(evm, evm)).toBe(false);
    expect(payerOf(evm)).toBe("");
  });
});
