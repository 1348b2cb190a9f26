/**
 * Our decoder against the public client library's (`@solana/kit`), on transactions that are valid and on such
 * as have been spoilt: we accept what kit accepts and writes again to the same bytes and what breaks none of
 * the runtime's rules, exactly that, and read the same in it.
 */
import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { decodeMessage, type Message } from "../../../../src/mechanism/solana/message.ts";
import type { Refusal, Result } from "../../../../src/x402/result.ts";
import {
  readSolanaTransaction,
  type SolanaTransaction,
} from "../../../../src/x402/solana-transaction.ts";
import { Random } from "../../../simulation/random.ts";
import { brokenRule, readWithKit, type KitReading } from "./kit-reading.ts";
import { join, partsOf, toBase64 } from "./message-encoder.ts";
import { corpusOf } from "./transaction-corpus.ts";
import { mutate, type Original } from "./transaction-mutations.ts";
import { effort } from "../../../support/effort.ts";

/** Another seed can be tried from outside; a failure says which it was. */
const SEED = Number.parseInt(process.env["COINSLOT_FUZZ_SEED"] ?? "1", 10);
const MUTANTS = effort(10_000, 40_000);
/** Each a test of its own, so that none comes near the time limit. */
const SHARES = 8;
/** Of the mutants, so that neither answer is rare. */
const LEAST_OF_EACH = 0.1;

interface Reading {
  readonly transaction: SolanaTransaction;
  readonly message: Message;
}

function read(bytes: Uint8Array): Result<Reading, Refusal> {
  const transaction = readSolanaTransaction(toBase64(bytes));
  if (!transaction.ok) return transaction;
  const message = decodeMessage(transaction.value);
  if (!message.ok) return message;
  return { ok: true, value: { transaction: transaction.value, message: message.value } };
}

const corpus = corpusOf(SEED);

/** What is wrong with our reading, measured by kit's; undefined when they agree. */
function difference(bytes: Uint8Array, ours: Reading, kit: KitReading): string | undefined {
  const { transaction, message } = ours;
  const [feePayer, payer] = kit.message.keys;
  const signatures = kit.message.keys
    .slice(0, kit.message.requiredSignatures)
    .map((signer) => kit.signatures.get(signer) ?? new Uint8Array(64));
  const { signaturesOffset, signatures: views } = transaction;
  const parts = {
    message: isDeepStrictEqual(message, kit.message),
    "message bytes": isDeepStrictEqual(transaction.message, kit.messageBytes),
    signatures: isDeepStrictEqual(views, signatures),
    "signatures' offset": isDeepStrictEqual(
      Buffer.concat(views),
      Buffer.from(bytes).subarray(signaturesOffset, signaturesOffset + 64 * views.length),
    ),
    bytes: isDeepStrictEqual(transaction.bytes, bytes),
    version: transaction.version === kit.message.version,
    "fee payer": transaction.feePayer === feePayer,
    payer: transaction.payer === (kit.message.requiredSignatures === 2 ? payer : undefined),
  };
  const wrong = Object.entries(parts).flatMap(([name, isRight]) => (isRight ? [] : [name]));
  return wrong.length === 0 ? undefined : `reads another ${wrong.join(", ")}`;
}

/** How often each outcome came up. */
class Tally {
  readonly #counts = new Map<string, number>();

  add(outcome: string): void {
    this.#counts.set(outcome, this.count(outcome) + 1);
  }

  count(outcome: string): number {
    return this.#counts.get(outcome) ?? 0;
  }

  toString(): string {
    return [...this.#counts]
      .sort(([, left], [, right]) => right - left)
      .map(([outcome, count]) => `${count} ${outcome}`)
      .join("\n");
  }
}

const BOTH_ACCEPT = "accepted by both";
const BOTH_REFUSE = "refused by both";

/** Judges one transaction; the outcome, or what does not agree. */
function compare(bytes: Uint8Array): { readonly outcome: string; readonly fault?: string } {
  const ours = read(bytes);
  const kit = readWithKit(bytes);
  const broken = kit === undefined ? undefined : brokenRule(kit, bytes);
  if (ours.ok) {
    if (kit === undefined) return { outcome: "", fault: "accepted by us, refused by kit" };
    const fault = broken ?? difference(bytes, ours.value, kit);
    return { outcome: BOTH_ACCEPT, ...(fault === undefined ? {} : { fault }) };
  }
  const { code, detail } = ours.error;
  if (code !== "invalid_payload") return { outcome: "", fault: `refused with ${code}` };
  if (kit === undefined) return { outcome: BOTH_REFUSE };
  if (broken === undefined) return { outcome: "", fault: `refused without reason: ${detail}` };
  return { outcome: `refused by us only: ${broken}` };
}

describe("the decoder", () => {
  test.each(corpus)("reads what kit writes: $name", ({ bytes }) => {
    const kit = readWithKit(bytes);
    const ours = read(bytes);
    if (!ours.ok || kit === undefined) throw new Error(`refused: ${JSON.stringify(ours)}`);
    expect(difference(bytes, ours.value, kit)).toBe(undefined);
    expect(ours.value.message).toEqual(kit.message);
  });

  test.each(corpus)("loses nothing: $name encodes to the same bytes again", ({ bytes }) => {
    const ours = read(bytes);
    if (!ours.ok) throw new Error(ours.error.detail);
    const { message, transaction } = ours.value;
    expect(join(partsOf(message, transaction.signatures))).toEqual(bytes);
  });

  const [first, ...others] = corpus.map(({ bytes }): Original => {
    const ours = read(bytes);
    if (!ours.ok) throw new Error(ours.error.detail);
    return { message: ours.value.message, signatures: ours.value.transaction.signatures };
  });

  test.each(Array.from({ length: SHARES }, (_, share) => share))(
    "agrees with kit about spoilt transactions, except where a rule of the runtime is broken (%i)",
    (share) => {
      if (first === undefined) throw new Error("there is no corpus");
      const tally = new Tally();
      const start = (share * MUTANTS) / SHARES;
      const end = ((share + 1) * MUTANTS) / SHARES;
      for (let index = start; index < end; index += 1) {
        const { bytes, steps } = mutate(new Random(SEED * MUTANTS + index), [first, ...others]);
        const { outcome, fault } = compare(bytes);
        tally.add(outcome);
        if (fault === undefined) continue;
        const which = `seed ${SEED}, mutant ${index} (${steps.join(", ")}): ${fault}`;
        expect.fail(`${which}\n${toBase64(bytes)}\nso far:\n${tally.toString()}`);
      }
      const least = (MUTANTS / SHARES) * LEAST_OF_EACH;
      expect(tally.count(BOTH_ACCEPT), tally.toString()).toBeGreaterThan(least);
      expect(tally.count(BOTH_REFUSE), tally.toString()).toBeGreaterThan(least);
    },
  );
});
