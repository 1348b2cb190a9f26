/** A payment's message as a value that tests change and encode: the plainest that a client would write. */
import { createHash } from "node:crypto";
import { getBase58Decoder } from "@solana/kit";
import type { Message } from "../../../../src/mechanism/solana/message.ts";

/** An address that stands for a name. */
export function testKey(name: string): string {
  return getBase58Decoder().decode(createHash("sha256").update(name).digest());
}

export interface PaymentMessageOptions {
  readonly version: Message["version"];
  readonly payer?: string;
  readonly memoBytes?: number;
}

/** Fee payer, payer, source, destination, mint, token program, memo program: a transfer and a memo. */
export function paymentMessage({
  version,
  payer = testKey("payer"),
  memoBytes = 32,
}: PaymentMessageOptions): Message {
  const others = ["source", "destination", "mint", "token program", "memo program"].map(testKey);
  const config = {
    priorityFeeLamports: null,
    computeUnitLimit: null,
    loadedAccountsBytes: null,
    heapBytes: null,
  };
  return {
    version,
    requiredSignatures: 2,
    readonlySigned: 1,
    readonlyUnsigned: 3,
    keys: [testKey("fee payer"), payer, ...others],
    blockhash: testKey("blockhash"),
    instructions: [
      {
        program: 5,
        accounts: Uint8Array.of(2, 4, 3, 1),
        data: Uint8Array.of(12, 0x10, 0x27, 0, 0, 0, 0, 0, 0, 6),
      },
      { program: 6, accounts: new Uint8Array(0), data: new Uint8Array(memoBytes).fill(0x61) },
    ],
    lookups: [],
    config: version === 1 ? config : null,
  };
}
