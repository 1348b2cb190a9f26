/**
 * Lists of payers as files: an address a line, EVM or Solana, bare or with its chain (CAIP-10: `eip155:8453:0x…`). Lists
 * of sanctions come so, or as CSV, of which the first column counts. `#` begins a comment.
 */
import { isEvmAddress } from "./address.ts";
import { findNetwork } from "./network.ts";
import { isSolanaAddress } from "./solana-address.ts";

/** Entries of one list at most: a hundred thousand take some 10 MB. */
export const MAX_PAYERS = 1_000_000;

const CAIP10 = /^([-a-z0-9]{3,8}):([-\w]{1,32}):([-.%A-Za-z0-9]{1,128})$/;
/** What a first line may say in place of an address: the name of its column. */
const HEADER = /^[A-Za-z][A-Za-z _-]{0,63}$/;

/** What most lines of a long list are. */
const PLAIN = /^0x[0-9a-fA-F]{40}$/;

/** What a line says: its first column, without a comment; "" where it says nothing. */
function entryOf(line: string): string {
  const [column = ""] = (line.split("#", 1)[0] ?? "").split(/[,;\t]/, 1);
  return column
    .trim()
    .replace(/^"(.*)"$/, "$1")
    .trim();
}

/** A line of a file that is no entry, from 1. */
export interface PayerListFault {
  readonly line: number;
  readonly message: string;
}

/** Upper and lower case of EVM addresses do not differ, those of Solana do. */
function nameOf(address: string): string {
  return isEvmAddress(address) ? address.toLowerCase() : address;
}

export class PayerList {
  readonly #names: Set<string>;
  readonly #isForAnyChain: boolean;

  /**
   * @param chains what an entry with a chain counts for: that chain alone, or all of its kind. A key has one address on
   *   all of them, and who may not pay with it there is not to pay with it here.
   * @param names of another list of the same kind, as {@link names} tells them
   */
  constructor(chains: "that" | "any", names: ReadonlySet<string> = new Set()) {
    this.#isForAnyChain = chains === "any";
    this.#names = new Set(names);
  }

  get chains(): "that" | "any" {
    return this.#isForAnyChain ? "any" : "that";
  }

  get names(): ReadonlySet<string> {
    return this.#names;
  }

  get size(): number {
    return this.#names.size;
  }

  /** How many are on it: a list of sanctions is too long to be shown, and one of customers is nobody's business. */
  toJSON(): object {
    return { payers: this.size };
  }

  /** Adds the entries of a file; the lines that are none are told, and nothing of them is added. */
  read(text: string): readonly PayerListFault[] {
    const faults: PayerListFault[] = [];
    let isFirst = true;
    for (const [index, whole] of text
      .replace(/^\uFEFF/, "")
      .split("\n")
      .entries()) {
      const line = index + 1;
      const entry = PLAIN.test(whole) ? whole : entryOf(whole);
      if (entry === "") continue;
      const isHeader = isFirst && HEADER.test(entry) && !isSolanaAddress(entry);
      isFirst = false;
      if (isHeader || this.#add(entry)) continue;
      const message = /^0x/i.test(entry)
        ? "is no EVM address: 0x and 40 hex digits"
        : "is no address, with or without its chain (eip155:8453:0x…)";
      faults.push({ line, message });
    }
    return faults;
  }

  /** Whether an address is on it as a payer on that network. */
  has(network: string, address: string): boolean {
    return this.#names.has(nameOf(address)) || this.hasOn(network, address);
  }

  /** Whether it is on it with that very chain. */
  hasOn(network: string, address: string): boolean {
    const caip2 = findNetwork(network)?.caip2;
    return caip2 !== undefined && this.#names.has(`${caip2}:${nameOf(address)}`);
  }

  #add(entry: string): boolean {
    if (isEvmAddress(entry) || isSolanaAddress(entry)) {
      this.#names.add(nameOf(entry));
      return true;
    }
    const [, namespace = "", reference = "", address = ""] = CAIP10.exec(entry) ?? [];
    if (namespace === "") return false;
    const isOurs = namespace === "eip155" ? isEvmAddress(address) : isSolanaAddress(address);
    // Of other chains nobody pays here; lists that are shared have them all the same.
    if (namespace !== "eip155" && namespace !== "solana") return true;
    if (!isOurs) return false;
    const name = nameOf(address);
    this.#names.add(this.#isForAnyChain ? name : `${namespace}:${reference}:${name}`);
    return true;
  }
}
