/** Changes of a message that is finished: its header, accounts, indices and lookups. */
import type { Message } from "../../../../src/mechanism/solana/message.ts";
import type { Random } from "../../../simulation/random.ts";
import { at } from "./draft-changes.ts";

/** A little more than the table has. */
const MAX_ENTRY = 15;

type MessageChange = readonly [string, (message: Message, random: Random) => Message];

const step = (random: Random): number => random.pick([-1, 1] as const);
/** A header is made of bytes. */
const byte = (value: number): number => Math.min(255, Math.max(0, value));

export const MESSAGE_CHANGES: readonly [MessageChange, ...MessageChange[]] = [
  [
    "the number of signatures off by one",
    (message, random) => ({
      ...message,
      requiredSignatures: byte(message.requiredSignatures + step(random)),
    }),
  ],
  [
    "the number of read-only signers off by one",
    (message, random) => ({
      ...message,
      readonlySigned: byte(message.readonlySigned + step(random)),
    }),
  ],
  [
    "the number of read-only accounts off by one",
    (message, random) => ({
      ...message,
      readonlyUnsigned: byte(message.readonlyUnsigned + step(random)),
    }),
  ],
  [
    "two accounts swapped",
    (message, random) => {
      const [one, other] = [at(random, message.keys), at(random, message.keys)];
      const [first = "", second = ""] = [message.keys[one], message.keys[other]];
      return { ...message, keys: message.keys.with(one, second).with(other, first) };
    },
  ],
  [
    "an account twice",
    (message, random) => ({
      ...message,
      keys: [...message.keys, message.keys[at(random, message.keys)] ?? ""],
      readonlyUnsigned: message.readonlyUnsigned + 1,
    }),
  ],
  [
    "an entry of the table more",
    (message, random) => ({
      ...message,
      lookups: message.lookups.map((lookup) => {
        const place = random.chance(0.5) ? "writable" : "readonly";
        const index = random.between(0, MAX_ENTRY);
        return { ...lookup, [place]: Uint8Array.of(...lookup[place], index) };
      }),
    }),
  ],
  [
    "another index",
    (message, random) => {
      const place = at(random, message.instructions);
      const found = message.instructions[place];
      if (found === undefined || found.accounts.length === 0) return message;
      const index = random.between(0, message.keys.length);
      const accounts = found.accounts.with(at(random, found.accounts), index);
      return { ...message, instructions: message.instructions.with(place, { ...found, accounts }) };
    },
  ],
];
