/** Lookup tables: what is asked of the node, when, and what is believed. */
import { describe, expect, test } from "vitest";
import { LookupTables } from "../../../../src/mechanism/solana/lookup-tables.ts";
import type { Lookup } from "../../../../src/mechanism/solana/message.ts";
import { ADDRESS_LOOKUP_TABLE_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import type { Rpc } from "../../../../src/mechanism/rpc.ts";
import { encodeBase58 } from "../../../../src/x402/solana-address.ts";
import { integer, testKey } from "../../../support/solana-messages.ts";

const { signal } = new AbortController();
const META_BYTES = 56;
const tableAddress = (number: number): string => testKey(number).address;
const entry = (index: number): Uint8Array =>
  Uint8Array.from([...integer(index + 1, 8), ...Buffer.alloc(24, 7)]);
const entries = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => encodeBase58(entry(index)));

/** A table as the chain holds it, with so many addresses. */
function tableData(count: number): Buffer {
  const meta = Buffer.alloc(META_BYTES);
  meta.writeUInt32LE(1);
  meta.fill(0xff, 4, 12);
  return Buffer.concat([meta, ...Array.from({ length: count }, (_, index) => entry(index))]);
}

const account = (data: Uint8Array, owner = ADDRESS_LOOKUP_TABLE_PROGRAM): unknown => ({
  data: [Buffer.from(data).toString("base64"), "base64"],
  executable: false,
  lamports: 1,
  owner,
  space: data.length,
});

const lookup = (table: string, writable: number[], readonly: number[] = []): Lookup => ({
  table,
  writable: Uint8Array.from(writable),
  readonly: Uint8Array.from(readonly),
});

/** A node that holds these accounts; they may change. */
class Node implements Rpc {
  readonly host = "node.example";
  readonly accounts = new Map<string, unknown>();
  /** The addresses of each call. */
  readonly calls: (readonly string[])[] = [];
  answer: unknown;

  async call(method: string, params: readonly unknown[]): Promise<unknown> {
    expect(method).toBe("getMultipleAccounts");
    const [addresses, options] = params;
    // The header, and as many addresses as a table can have.
    const dataSlice = { offset: 0, length: 56 + 256 * 32 };
    expect(options).toEqual({ commitment: "finalized", encoding: "base64", dataSlice });
    if (!Array.isArray(addresses)) throw new TypeError("no addresses");
    this.calls.push(addresses);
    const value = addresses.map((address) => this.accounts.get(address) ?? null);
    return this.answer ?? { context: { slot: 1 }, value };
  }

  async close(): Promise<void> {}
}

function nodeWith(tables: Record<string, unknown>): Node {
  const node = new Node();
  for (const [table, value] of Object.entries(tables)) node.accounts.set(table, value);
  return node;
}

describe("lookup tables", () => {
  const [first, second] = [tableAddress(1), tableAddress(2)];

  test("are read in one call, each once", async () => {
    const node = nodeWith({ [first]: account(tableData(3)), [second]: account(tableData(256)) });
    const lookups = [lookup(first, [0]), lookup(second, [], [255]), lookup(first, [], [2])];
    const tables = await new LookupTables().load(node, lookups, signal);
    expect(tables).toEqual(
      new Map([
        [first, entries(3)],
        [second, entries(256)],
      ]),
    );
    expect(node.calls).toEqual([[first, second]]);
  });

  test("are not read again, but for an index that lies behind what is known", async () => {
    const node = nodeWith({ [first]: account(tableData(3)), [second]: account(tableData(1)) });
    const tables = new LookupTables();
    await tables.load(node, [lookup(first, [2])], signal);
    await tables.load(node, [lookup(first, [0, 1], [2])], signal);
    expect(node.calls).toEqual([[first]]);
    node.accounts.set(first, account(tableData(5)));
    const found = await tables.load(node, [lookup(second, [0]), lookup(first, [0], [3])], signal);
    expect(found.get(first)).toEqual(entries(5));
    expect(node.calls).toEqual([[first], [second, first]]);
    await tables.load(node, [lookup(first, [4])], signal);
    expect(node.calls).toHaveLength(2);
  });

  test("never lose what was known, when a node is behind", async () => {
    const node = nodeWith({ [first]: account(tableData(3)) });
    const tables = new LookupTables();
    await tables.load(node, [lookup(first, [2])], signal);
    for (const behind of [account(tableData(1)), null]) {
      node.accounts.set(first, behind);
      const found = await tables.load(node, [lookup(first, [3])], signal);
      expect(found.get(first)).toEqual(entries(3));
    }
    await tables.load(node, [lookup(first, [2])], signal);
    expect(node.calls).toHaveLength(3);
  });

  test("that are not there, or are none, are left out, and asked for again", async () => {
    const good = tableData(2);
    const uninitialized = Buffer.from(good);
    uninitialized.writeUInt32LE(0);
    const bad = [
      null,
      account(good, testKey(5).address),
      account(uninitialized),
      account(good.subarray(0, -1)),
      account(good.subarray(0, META_BYTES - 1)),
      account(Buffer.alloc(0)),
      account(tableData(257)),
    ];
    const tables = new LookupTables();
    for (const value of bad) {
      const node = nodeWith({ [first]: value, [second]: account(good) });
      const found = await tables.load(node, [lookup(first, [0]), lookup(second, [0])], signal);
      expect(found.has(first)).toBe(false);
      expect(found.get(second)).toEqual(entries(2));
      expect(node.calls[0]?.[0]).toBe(first);
    }
  });

  test("of no addresses are tables, too", async () => {
    const node = nodeWith({ [first]: account(tableData(0)) });
    expect(await new LookupTables().load(node, [lookup(first, [0])], signal)).toEqual(
      new Map([[first, []]]),
    );
  });

  test("cost nothing where a message has none", async () => {
    const node = nodeWith({});
    expect(await new LookupTables().load(node, [], signal)).toEqual(new Map());
    expect(node.calls).toEqual([]);
  });

  test("are not made up from an answer of another shape", async () => {
    const wrong = [
      "nonsense",
      { value: [] },
      { value: null },
      { value: [{ owner: ADDRESS_LOOKUP_TABLE_PROGRAM }] },
      { value: [{ owner: ADDRESS_LOOKUP_TABLE_PROGRAM, data: ["", "base58"] }] },
      { value: [7] },
    ];
    for (const answer of wrong) {
      const node = nodeWith({});
      node.answer = answer;
      const loading = new LookupTables().load(node, [lookup(first, [0])], signal);
      await expect(loading).rejects.toThrow(ChainError);
    }
  });

  test("are kept up to a limit, behind which old ones are read again", async () => {
    const all = Array.from({ length: 129 }, (_, index) =>
      encodeBase58(Buffer.alloc(32, index + 1)),
    );
    const node = nodeWith(Object.fromEntries(all.map((table) => [table, account(tableData(1))])));
    const tables = new LookupTables();
    const ask = (table = "") => tables.load(node, [lookup(table, [0])], signal);
    for (const table of all.slice(0, 128)) await ask(table);
    await ask(all[0]);
    expect(node.calls).toHaveLength(128);
    expect((await ask(all[128])).get(all[128] ?? "")).toEqual(entries(1));
    await ask(all[0]);
    expect(node.calls).toHaveLength(130);
  });
});
