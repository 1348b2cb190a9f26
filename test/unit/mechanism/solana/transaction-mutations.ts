/**
 * Spoils transactions: bytes flipped, cut, put in; lengths, headers, masks and keys changed; parts swapped,
 * taken away, written twice; and messages that are well formed and break a rule of the runtime.
 */
import { getBase58Decoder } from "@solana/kit";
import type { Message } from "../../../../src/mechanism/solana/message.ts";
import type { Random } from "../../../simulation/random.ts";
import { compactLength, join, partsOf, signaturesOf, type Part } from "./message-encoder.ts";

const base58 = getBase58Decoder();

/** A valid transaction to start from. */
export interface Original {
  readonly message: Message;
  readonly signatures: readonly Uint8Array[];
}

/** What came of it. */
export interface Mutant {
  readonly bytes: Uint8Array;
  /** What was done, for a failure's message. */
  readonly steps: readonly string[];
}

/** At most so many changes of one kind on one transaction. */
const MAX_STEPS = 3;
/** Bytes that sit at the edge of a rule. */
const EDGE_BYTES = [0, 1, 2, 3, 12, 13, 63, 64, 65, 127, 128, 129, 130, 255] as const;
/** Lengths that sit at the edge of a rule or of their own encoding. */
const EDGE_LENGTHS = [0, 1, 64, 65, 127, 128, 255, 256, 16_383, 16_384, 65_535] as const;

/** One transaction out of several, changed. */
export function mutate(random: Random, originals: readonly [Original, ...Original[]]): Mutant {
  const steps: string[] = [];
  let { message, signatures } = random.pick(originals);
  if (random.chance(0.4)) {
    const [name, change] = random.pick(MESSAGE_CHANGES);
    steps.push(name);
    message = change(message, random);
    signatures = [...signatures, ...signaturesOf(256)].slice(0, message.requiredSignatures);
  }
  let parts: readonly Part[] = partsOf(message, signatures);
  if (random.chance(0.5)) {
    for (let turn = random.between(1, MAX_STEPS); turn > 0; turn -= 1) {
      const [name, change] = random.pick(PART_CHANGES);
      steps.push(name);
      parts = change(parts, random);
    }
  }
  let bytes = join(parts);
  if (steps.length === 0 || random.chance(0.2)) {
    const [name, change] = random.pick(BYTE_CHANGES);
    steps.push(name);
    bytes = change(bytes, random);
  }
  return { bytes, steps };
}

type Change<Value> = readonly [string, (value: Value, random: Random) => Value];

const anyByte = (random: Random): number =>
  random.chance(0.5) ? random.pick(EDGE_BYTES) : random.between(0, 255);
const someBytes = (random: Random, most: number): Uint8Array =>
  Uint8Array.from({ length: random.between(1, most) }, () => anyByte(random));
const at = (random: Random, values: ArrayLike<unknown>): number =>
  random.between(0, Math.max(0, values.length - 1));

const BYTE_CHANGES: readonly [Change<Uint8Array>, ...Change<Uint8Array>[]] = [
  [
    "flip bits",
    (bytes, random) => {
      const flipped = bytes.slice();
      const place = at(random, bytes);
      flipped[place] = (bytes[place] ?? 0) ^ random.between(1, 255);
      return flipped;
    },
  ],
  ["cut the end", (bytes, random) => bytes.slice(0, random.between(0, bytes.length))],
  ["cut a byte off the end", (bytes) => bytes.slice(0, -1)],
  ["cut the start", (bytes, random) => bytes.slice(random.between(0, 70))],
  ["put in bytes", (bytes, random) => put(bytes, at(random, bytes), someBytes(random, 70))],
  ["add to the end", (bytes, random) => put(bytes, bytes.length, someBytes(random, 70))],
  [
    "take out bytes",
    (bytes, random) => {
      const place = at(random, bytes);
      return put(bytes.slice(0, place), place, bytes.slice(place + random.between(1, 70)));
    },
  ],
];

function put(bytes: Uint8Array, place: number, added: Uint8Array): Uint8Array {
  return new Uint8Array(Buffer.concat([bytes.subarray(0, place), added, bytes.subarray(place)]));
}

type Parts = readonly Part[];

/** Changes one part of that kind; the same parts where there is none. */
function changed(
  kind: Part["kind"],
  change: (bytes: Uint8Array, random: Random, parts: Parts) => Uint8Array,
): (parts: Parts, random: Random) => Parts {
  return (parts, random) => {
    const places = parts.flatMap((part, index) => (part.kind === kind ? [index] : []));
    const place = places[at(random, places)];
    const part = place === undefined ? undefined : parts[place];
    if (place === undefined || part === undefined) return parts;
    return parts.with(place, { kind, bytes: change(part.bytes, random, parts) });
  };
}

const oneByte = (_: Uint8Array, random: Random): Uint8Array => Uint8Array.of(anyByte(random));

const PART_CHANGES: readonly [Change<Parts>, ...Change<Parts>[]] = [
  ["another header", changed("header", oneByte)],
  [
    "a header off by one",
    changed("header", (bytes, random) => bytes.map((byte) => byte + random.pick([-1, 1] as const))),
  ],
  ["another prefix", changed("prefix", oneByte)],
  ["no prefix", changed("prefix", () => new Uint8Array(0))],
  [
    "another mask",
    changed("mask", (bytes, random) => bytes.with(at(random, bytes), anyByte(random))),
  ],
  [
    "a bit of the mask",
    changed("mask", (bytes, random) =>
      bytes.with(0, (bytes[0] ?? 0) ^ (1 << random.between(0, 7))),
    ),
  ],
  [
    "another value",
    changed("value", (bytes, random) => bytes.with(at(random, bytes), anyByte(random))),
  ],
  [
    "a length off by one",
    changed("count", (bytes, random) =>
      bytes.with(0, (bytes[0] ?? 0) + random.pick([-1, 1] as const)),
    ),
  ],
  ["another length", changed("count", (_, random) => compactLength(random.pick(EDGE_LENGTHS)))],
  [
    "an uncommon length",
    changed("count", (bytes, random) => compactLength(bytes[0] ?? 0, random.between(1, 2))),
  ],
  ["a length of high bits", changed("count", (_, random) => someBytes(random, 4))],
  [
    "a key twice",
    changed("key", (_, random, parts) => {
      const keys = parts.filter(({ kind }) => kind === "key");
      return keys[at(random, keys)]?.bytes ?? new Uint8Array(0);
    }),
  ],
  ["a key of zeros", changed("key", (bytes) => bytes.map(() => 0))],
  ["a signature of zeros", changed("signature", (bytes) => bytes.map(() => 0))],
  ["a blockhash of zeros", changed("blockhash", (bytes) => bytes.map(() => 0))],
  [
    "another index",
    changed("index", (bytes, random) =>
      bytes.length === 0 ? bytes : bytes.with(at(random, bytes), anyByte(random)),
    ),
  ],
  ["other data", changed("data", (_, random) => someBytes(random, 200))],
  [
    "two parts swapped",
    (parts, random) => {
      const [one, other] = [at(random, parts), at(random, parts)];
      const [first, second] = [parts[one], parts[other]];
      return first === undefined || second === undefined
        ? parts
        : parts.with(one, second).with(other, first);
    },
  ],
  ["a part less", (parts, random) => parts.toSpliced(at(random, parts), 1)],
  [
    "a part twice",
    (parts, random) => {
      const place = at(random, parts);
      return parts.toSpliced(place, 0, ...parts.slice(place, place + 1));
    },
  ],
];

/** So many keys that no other part of a test makes up. */
function newKeys(count: number): string[] {
  return Array.from({ length: count }, (_, index) =>
    base58.decode(new Uint8Array(32).fill(index + 1)),
  );
}

/** Changes one instruction; the same message where there is none. */
function instruction(
  change: (
    instruction: Message["instructions"][number],
    random: Random,
  ) => Message["instructions"][number],
): (message: Message, random: Random) => Message {
  return (message, random) => {
    const place = at(random, message.instructions);
    const found = message.instructions[place];
    if (found === undefined) return message;
    return { ...message, instructions: message.instructions.with(place, change(found, random)) };
  };
}

const MESSAGE_CHANGES: readonly [Change<Message>, ...Change<Message>[]] = [
  [
    "many instructions",
    (message, random) => {
      const plain = { program: 1, accounts: new Uint8Array(0), data: new Uint8Array(0) };
      const more = Array.from({ length: random.pick([1, 62, 63, 64, 65] as const) }, () => plain);
      return { ...message, instructions: [...message.instructions.slice(0, 1), ...more] };
    },
  ],
  [
    "many accounts in an instruction",
    instruction((found, random) => ({
      ...found,
      accounts: new Uint8Array(random.pick([1, 127, 128, 254, 255, 256, 257] as const)),
    })),
  ],
  ["another program", instruction((found, random) => ({ ...found, program: anyByte(random) }))],
  [
    "another account",
    instruction(({ accounts, ...found }, random) => ({
      ...found,
      accounts: Uint8Array.of(...accounts, anyByte(random)),
    })),
  ],
  [
    "long data",
    instruction((found, random) => ({
      ...found,
      data: new Uint8Array(random.pick([0, 127, 128, 500, 3000] as const)),
    })),
  ],
  [
    "as long as its version allows",
    (message, random) => {
      const [first, ...others] = message.instructions;
      if (first === undefined) return message;
      const size = (length: number): number =>
        join(
          partsOf(
            { ...message, instructions: [{ ...first, data: new Uint8Array(length) }, ...others] },
            [],
          ),
        ).length +
        64 * message.requiredSignatures;
      const room = (message.version === 1 ? 4096 : 1232) - size(200);
      const data = new Uint8Array(Math.max(0, 200 + room + random.between(-2, 2)));
      return { ...message, instructions: [{ ...first, data }, ...others] };
    },
  ],
  [
    "another number of signers",
    (message, random) => {
      const requiredSignatures = random.between(0, 14);
      const keys = [...message.keys, ...newKeys(requiredSignatures)];
      return { ...message, keys, requiredSignatures };
    },
  ],
  [
    "fewer writable accounts",
    (message, random) => ({
      ...message,
      readonlySigned: random.between(0, message.requiredSignatures),
      readonlyUnsigned: random.between(0, message.keys.length),
    }),
  ],
  [
    "more keys",
    (message, random) => {
      const keys = [...message.keys, ...newKeys(random.pick([1, 29, 57, 58] as const))];
      return { ...message, keys };
    },
  ],
  [
    "other lookups",
    (message, random) => {
      const indices = (): Uint8Array =>
        new Uint8Array(random.pick([0, 0, 0, 1, 2, 120, 128, 248, 300] as const)).map(
          (_, index) => index,
        );
      const lookups = Array.from({ length: random.between(1, 3) }, () => ({
        table: message.blockhash,
        writable: indices(),
        readonly: indices(),
      }));
      return { ...message, lookups };
    },
  ],
  [
    "another configuration",
    (message, random) => {
      const u32 = (): number | null => (random.chance(0.5) ? null : random.between(0, 2 ** 32 - 1));
      const heaps = [
        null,
        0,
        1024,
        32 * 1024,
        33 * 1024,
        32 * 1024 + 1,
        256 * 1024,
        257 * 1024,
      ] as const;
      const config = {
        priorityFeeLamports: random.chance(0.5) ? null : BigInt(random.between(0, 2 ** 48)),
        computeUnitLimit: u32(),
        loadedAccountsBytes: u32(),
        heapBytes: random.pick(heaps),
      };
      return message.version === 1 ? { ...message, config } : message;
    },
  ],
];
