/** The parameters of a JSON-RPC call, read as strictly as Agave reads them. */
import { fromBase58 } from "./base58.ts";
import { invalidParams } from "./rpc-error.ts";

export type Commitment = "processed" | "confirmed" | "finalized";

/** What a call that names none means. */
const DEFAULT_COMMITMENT: Commitment = "finalized";
const COMMITMENTS: ReadonlySet<string> = new Set(["processed", "confirmed", "finalized"]);
const ADDRESS_BYTES = 32;
const SIGNATURE_BYTES = 64;

export class Params {
  readonly #values: readonly unknown[];

  constructor(values: unknown) {
    if (values !== undefined && values !== null && !Array.isArray(values)) {
      throw invalidParams("Invalid params: invalid type: map, expected a tuple.");
    }
    this.#values = values ?? [];
  }

  string(index: number): string {
    return asString(this.#required(index));
  }

  address(index: number): string {
    return address(this.string(index));
  }

  signature(index: number): string {
    return signature(this.string(index));
  }

  integer(index: number): number {
    return asInteger(this.#required(index));
  }

  list(index: number): readonly unknown[] {
    const value = this.#required(index);
    if (!Array.isArray(value)) throw wrongType(value, "a sequence");
    return value;
  }

  addresses(index: number): string[] {
    return this.list(index).map((each) => address(asString(each)));
  }

  optionalList(index: number): readonly unknown[] {
    return this.#values[index] === undefined ? [] : this.list(index);
  }

  /** The options at this place; empty ones when there are none. */
  config(index: number): Config {
    return new Config(this.#values[index]);
  }

  #required(index: number): unknown {
    if (index < this.#values.length) return this.#values[index];
    throw invalidParams(`\`params\` should have at least ${index + 1} argument(s)`);
  }
}

/** The object of options that many calls end with. */
export class Config {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(value: unknown) {
    if (!isRecord(value ?? {})) throw wrongType(value, "struct");
    this.#values = isRecord(value) ? value : {};
  }

  string(key: string): string | undefined {
    const value = this.raw(key);
    return value === undefined ? undefined : asString(value);
  }

  boolean(key: string): boolean {
    const value = this.raw(key) ?? false;
    if (typeof value !== "boolean") throw wrongType(value, "a boolean");
    return value;
  }

  integer(key: string): number | undefined {
    const value = this.raw(key);
    return value === undefined ? undefined : asInteger(value);
  }

  address(key: string): string | undefined {
    const value = this.string(key);
    return value === undefined ? undefined : address(value);
  }

  /** Options within the options. */
  config(key: string): Config | undefined {
    const value = this.raw(key);
    return value === undefined ? undefined : new Config(value);
  }

  list(key: string): readonly unknown[] {
    const value = this.raw(key) ?? [];
    if (!Array.isArray(value)) throw wrongType(value, "a sequence");
    return value;
  }

  commitment(key = "commitment"): Commitment {
    const value = this.string(key) ?? DEFAULT_COMMITMENT;
    if (!isCommitment(value)) {
      throw invalidParams(`Invalid params: unknown variant \`${value}\`, expected a commitment.`);
    }
    return value;
  }

  raw(key: string): unknown {
    return this.#values[key] ?? undefined;
  }
}

export function address(text: string): string {
  return ofSize(text, ADDRESS_BYTES);
}

export function signature(text: string): string {
  return ofSize(text, SIGNATURE_BYTES);
}

function ofSize(text: string, size: number): string {
  const isLikely = /^[1-9A-HJ-NP-Za-km-z]+$/.test(text) && text.length <= size * 2;
  if (!isLikely) throw invalidParams("Invalid param: Invalid");
  if (fromBase58(text).length !== size) throw invalidParams("Invalid param: WrongSize");
  return text;
}

function asString(value: unknown): string {
  if (typeof value === "string") return value;
  throw wrongType(value, "a string");
}

function asInteger(value: unknown): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw wrongType(value, "u64");
}

function wrongType(value: unknown, expected: string): Error {
  const shown = JSON.stringify(value) ?? "nothing";
  return invalidParams(`Invalid params: invalid type: ${shown}, expected ${expected}.`);
}

function isCommitment(value: string): value is Commitment {
  return COMMITMENTS.has(value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
