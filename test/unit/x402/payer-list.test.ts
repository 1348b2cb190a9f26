/** Lists of payers: what their lines may be, and whom each of them means. */
import { expect, test } from "vitest";
import { PayerList } from "../../../src/x402/payer-list.ts";

const EVM = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const SOLANA = "EwWqGE4ZFKLofuestmU4LDdK7XM1N4ALgdZccwYugwGd";

function read(text: string, chains: "that" | "any" = "any") {
  const list = new PayerList(chains);
  return { list, faults: list.read(text) };
}

test.each([
  EVM,
  EVM.toLowerCase(),
  `  ${EVM}\r`,
  `${EVM} # why`,
  `${EVM},Somebody,"2024-01-01"`,
  `"${EVM}";Somebody`,
  `\uFEFF# a list\n\n${EVM}\tSomebody`,
  `address,name\n${EVM},x`,
  `Digital Currency Address\n${EVM}`,
  `eip155:8453:${EVM}`,
])("has an EVM payer, in any letter case and on each chain: %j", (text) => {
  const { list, faults } = read(text);
  expect(faults).toEqual([]);
  expect(list.size).toBe(1);
  expect(JSON.stringify(list)).toBe('{"payers":1}');
  for (const network of ["base", "polygon"]) {
    expect(list.has(network, EVM)).toBe(true);
    expect(list.has(network, EVM.toLowerCase())).toBe(true);
    expect(list.has(network, `0x${"12".repeat(20)}`)).toBe(false);
  }
});

test("takes an entry with a chain for that chain alone where it lets payers in", () => {
  const { list, faults } = read(
    `eip155:8453:${EVM}\nsolana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:${SOLANA}`,
    "that",
  );
  expect(faults).toEqual([]);
  expect(list.has("base", EVM.toLowerCase())).toBe(true);
  expect(list.has("polygon", EVM)).toBe(false);
  expect(list.has("solana", SOLANA)).toBe(true);
  expect(list.has("solana-devnet", SOLANA)).toBe(false);
});

test("has a Solana payer as it is written and not otherwise", () => {
  const { list } = read(SOLANA);
  expect(list.has("solana", SOLANA)).toBe(true);
  expect(list.has("solana", SOLANA.toLowerCase())).toBe(false);
});

test("passes over what is well said of other chains, and tells of what is no entry by its line", () => {
  const lines = [
    "address",
    "bip122:000000000019d6689c085ae165831e93:128Lkh3S7CkDTBZ8W7BbpsN3YYizJMp8p6",
    "",
    `${EVM}0`,
    EVM,
    "name",
    `eip155:1:${SOLANA}`,
    `solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:${EVM}`,
  ];
  const { list, faults } = read(lines.join("\n"));
  expect(list.size).toBe(1);
  expect(faults).toEqual([
    { line: 4, message: "is no EVM address: 0x and 40 hex digits" },
    ...[6, 7, 8].map((line) => ({
      line,
      message: "is no address, with or without its chain (eip155:8453:0x…)",
    })),
  ]);
});

test("reads a hundred thousand entries at once", () => {
  const entries = Array.from({ length: 100_000 }, (_, number) =>
    number.toString(16).padStart(40, "0"),
  );
  const { list, faults } = read(entries.map((digits) => `0x${digits}`).join("\n"));
  expect([list.size, faults.length]).toEqual([100_000, 0]);
  expect(list.has("base", `0x${(99_999).toString(16).padStart(40, "0").toUpperCase()}`)).toBe(true);
});
