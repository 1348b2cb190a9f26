/**
 * Address lookup tables of version 0 messages: the accounts that a message names by table and index. What is
 * judged must be what the chain executes, so only finalized tables are read; and as entries are only ever
 * appended, what was read once stays true.
 */
import { encodeBase58, ADDRESS_BYTES } from "../../x402/solana-address.ts";
import type { Rpc } from "../rpc.ts";
import type { Lookup } from "./message.ts";
import { ADDRESS_LOOKUP_TABLE_PROGRAM } from "./programs.ts";
import { readAccounts, type RawAccount } from "./raw-account.ts";

/** Tables kept at most; each has up to 256 addresses. */
const MAX_TABLES = 128;
/** What stands before the addresses: type, slots, authority. */
const META_BYTES = 56;
/** The type of an initialized table, a little-endian u32. */
const TABLE_TYPE = 1;
/** An index is one byte. */
const MAX_ADDRESSES = 256;
const MAX_TABLE_BYTES = META_BYTES + MAX_ADDRESSES * ADDRESS_BYTES;

/** Reads lookup tables of one network, and keeps them. */
export class LookupTables {
  readonly #known = new Map<string, readonly string[]>();

  /**
   * The addresses of each table that a message names, by the table's address; in one call for all that are
   * not known, or not known far enough. What is no table is left out.
   * @throws {ChainError} when the node cannot be asked
   */
  async load(
    rpc: Rpc,
    lookups: readonly Lookup[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    const tables = new Map<string, readonly string[]>();
    const missing = new Set<string>();
    for (const lookup of lookups) {
      const known = this.#known.get(lookup.table);
      if (known !== undefined) tables.set(lookup.table, known);
      if ((known?.length ?? 0) <= Math.max(0, ...lookup.writable, ...lookup.readonly))
        missing.add(lookup.table);
    }
    if (missing.size === 0) return tables;
    for (const [table, addresses] of await readTables(rpc, [...missing], signal)) {
      tables.set(table, this.#longest(table, addresses));
    }
    return tables;
  }

  /** Keeps what is answered; unless more is known, since a node may be behind. */
  #longest(table: string, addresses: readonly string[]): readonly string[] {
    const known = this.#known.get(table);
    if (known !== undefined && known.length >= addresses.length) return known;
    if (this.#known.size >= MAX_TABLES && known === undefined) this.#known.clear();
    this.#known.set(table, addresses);
    return addresses;
  }
}

/** A transaction has room for fewer tables than may be asked for in one call. */
async function readTables(
  rpc: Rpc,
  tables: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const reading = { commitment: "finalized", maxBytes: MAX_TABLE_BYTES } as const;
  const accounts = await readAccounts(rpc, tables, reading, signal);
  const found = new Map<string, readonly string[]>();
  for (const [index, table] of tables.entries()) {
    const addresses = readAddresses(accounts[index] ?? null);
    if (addresses !== undefined) found.set(table, addresses);
  }
  return found;
}

/** Undefined for what is not an initialized lookup table, or is cut short. */
function readAddresses(account: RawAccount | null): readonly string[] | undefined {
  if (account === null || account.owner !== ADDRESS_LOOKUP_TABLE_PROGRAM) return undefined;
  const { data } = account;
  if (data.length < META_BYTES) return undefined;
  const type = new DataView(data.buffer, data.byteOffset).getUint32(0, true);
  const count = (data.length - META_BYTES) / ADDRESS_BYTES;
  if (type !== TABLE_TYPE || !Number.isInteger(count) || count > MAX_ADDRESSES) return undefined;
  return Array.from({ length: count }, (_, index) => {
    const start = META_BYTES + index * ADDRESS_BYTES;
    return encodeBase58(data.subarray(start, start + ADDRESS_BYTES));
  });
}
