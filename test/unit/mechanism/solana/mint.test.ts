/** Mints, made by the real token programs wherever they can make them. */
import { address, getTransactionDecoder, lamports } from "@solana/kit";
import { LiteSVM } from "litesvm";
import { describe, expect, test } from "vitest";
import { readMint } from "../../../../src/mechanism/solana/mint.ts";
import {
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from "../../../../src/mechanism/solana/programs.ts";
import type { RawAccount } from "../../../../src/mechanism/solana/raw-account.ts";
import {
  buildTransaction,
  call,
  integer,
  testKey,
  writable,
} from "../../../support/solana-messages.ts";

const ISSUER = [...Buffer.from("issuer".padEnd(32))];
const NOBODY = [...Buffer.alloc(32)];
const PAYER = testKey(1);
const MINT = testKey(2).address;
const PLENTY = lamports(10n ** 12n);
const MINT_BYTES = 82;
const EXTENSIONS_OFFSET = 166;

interface Extension {
  /** Bytes of its value. */
  readonly bytes: number;
  /** The token instruction that adds it. */
  readonly instruction: readonly number[];
}

/** A mint of 6 decimals, made by the token program itself. */
function makeMint(program: string, ...extensions: readonly Extension[]): RawAccount {
  const svm = new LiteSVM();
  svm.airdrop(address(PAYER.address), PLENTY);
  const extended = extensions.reduce((sum, { bytes }) => sum + 4 + bytes, EXTENSIONS_OFFSET);
  const size = extensions.length === 0 ? MINT_BYTES : extended;
  svm.setAccount({
    address: address(MINT),
    data: new Uint8Array(size),
    executable: false,
    lamports: PLENTY,
    programAddress: address(program),
    space: BigInt(size),
  });
  const initialize = [20, 6, ...ISSUER, 1, ...ISSUER];
  const data = [...extensions.map(({ instruction }) => instruction), initialize];
  const transaction = buildTransaction({
    instructions: data.map((bytes) => call(program, bytes, [writable(MINT)])),
    feePayer: PAYER.address,
    blockhash: svm.latestBlockhash(),
    signers: [PAYER],
  });
  const decoded = getTransactionDecoder().decode(Buffer.from(transaction, "base64"));
  const result = svm.sendTransaction(decoded);
  if ("err" in result) throw new Error(`the token program: ${String(result.err())}`);
  const account = svm.getAccount(address(MINT));
  if (!account.exists) throw new Error("there is no mint");
  return { owner: account.programAddress, data: Uint8Array.from(account.data) };
}

function fault(account: RawAccount): string {
  const mint = readMint(account);
  return mint.ok ? "none" : mint.error;
}

const transferFee = (basisPoints: number, maximum: number): Extension => ({
  bytes: 108,
  instruction: [26, 0, 0, 0, ...integer(basisPoints, 2), ...integer(maximum, 8)],
});
const transferHook = (program: readonly number[]): Extension => ({
  bytes: 64,
  instruction: [36, 0, ...ISSUER, ...program],
});
const defaultState = (state: number): Extension => ({ bytes: 1, instruction: [28, 0, state] });
const permanentDelegate: Extension = { bytes: 32, instruction: [35, ...ISSUER] };
const ONE = [0, 0, 0, 0, 0, 0, 0xf0, 0x3f];

describe("a mint without extensions", () => {
  test.each([TOKEN_PROGRAM, TOKEN_2022_PROGRAM])("of %s is read", (program) => {
    expect(readMint(makeMint(program))).toEqual({ ok: true, value: { decimals: 6, program } });
  });

  test("that is no mint is refused", () => {
    const { owner, data } = makeMint(TOKEN_PROGRAM);
    expect(fault({ owner: SYSTEM_PROGRAM, data })).toMatch(/not to Token or Token-2022/);
    const blank = new Uint8Array(MINT_BYTES);
    for (const other of [data.slice(1), Buffer.concat([data, NO_BYTE]), blank, NO_BYTE]) {
      expect(fault({ owner, data: other })).toBe("the account is not an initialized mint");
    }
  });
});

const NO_BYTE = Uint8Array.of(0);

describe("extensions of Token-2022", () => {
  test.each<[string, Extension]>([
    ["mint close authority", { bytes: 32, instruction: [25, 1, ...ISSUER] }],
    ["confidential transfers", { bytes: 65, instruction: [27, 0, ...ISSUER, 1, ...NOBODY] }],
    ["interest", { bytes: 52, instruction: [33, 0, ...ISSUER, 5, 0] }],
    ["a permanent delegate", permanentDelegate],
    ["a metadata pointer", { bytes: 64, instruction: [39, 0, ...ISSUER, ...ISSUER] }],
    ["a group pointer", { bytes: 64, instruction: [40, 0, ...ISSUER, ...ISSUER] }],
    ["a group member pointer", { bytes: 64, instruction: [41, 0, ...ISSUER, ...ISSUER] }],
    ["a scaled amount", { bytes: 56, instruction: [43, 0, ...ISSUER, ...ONE] }],
    ["a pause switch", { bytes: 33, instruction: [44, 0, ...ISSUER] }],
    ["permissioned burn", { bytes: 32, instruction: [46, 0, ...ISSUER] }],
    ["accounts that begin usable", defaultState(1)],
    ["a transfer fee of zero", transferFee(0, 5_000)],
    ["a transfer fee with nothing as its maximum", transferFee(50, 0)],
    ["a hook that calls nothing", transferHook(NOBODY)],
  ])("%s is fine", (_, extension) => {
    const mint = readMint(makeMint(TOKEN_2022_PROGRAM, extension));
    expect(mint).toEqual({ ok: true, value: { decimals: 6, program: TOKEN_2022_PROGRAM } });
  });

  test.each<[string, Extension, RegExp]>([
    ["a transfer fee", transferFee(1, 1), /a transfer fee of 1 basis points/],
    ["a hook", transferHook(ISSUER), /each transfer runs the issuer's program \w{32,44}, a tr/],
    ["tokens that do not move", { bytes: 0, instruction: [32] }, /cannot be transferred/],
    ["accounts that begin frozen", defaultState(2), /new token accounts are frozen/],
  ])("%s is refused, also behind another one", (_, extension, reason) => {
    expect(fault(makeMint(TOKEN_2022_PROGRAM, extension))).toMatch(reason);
    expect(fault(makeMint(TOKEN_2022_PROGRAM, permanentDelegate, extension))).toMatch(reason);
  });

  test("a fee is refused whether it is the one of now or the one to come", () => {
    const { owner, data } = makeMint(TOKEN_2022_PROGRAM, transferFee(50, 5_000));
    const [older, newer] = [data.slice(), data.slice()];
    // Basis points of the fee to come, and of the fee until then.
    newer.fill(0, EXTENSIONS_OFFSET + 4 + 88, EXTENSIONS_OFFSET + 4 + 90);
    older.fill(0, EXTENSIONS_OFFSET + 4 + 106);
    expect(fault({ owner, data: newer })).toMatch(/the newer of its two fees/);
    expect(fault({ owner, data: older })).toMatch(/the older of its two fees/);
    newer.fill(0, EXTENSIONS_OFFSET + 4 + 106);
    expect(fault({ owner, data: newer })).toBe("none");
  });

  test("one that is not known is refused, and so is one of a token account", () => {
    const { owner, data } = makeMint(TOKEN_2022_PROGRAM, permanentDelegate);
    for (const type of [2, 5, 7, 8, 11, 13, 15, 17, 27, 29, 30, 255, 65_535]) {
      data.set(integer(type, 2), EXTENSIONS_OFFSET);
      expect(fault({ owner, data })).toBe(
        `it has the extension ${type}, which is not known here and could change what a transfer does`,
      );
    }
  });

  test("room for one that is not there is no extension", () => {
    const { owner, data } = makeMint(TOKEN_2022_PROGRAM, permanentDelegate);
    expect(fault({ owner, data: Buffer.concat([data, Buffer.alloc(2)]) })).toBe("none");
    expect(fault({ owner, data: data.slice(0, EXTENSIONS_OFFSET) })).toBe("none");
  });

  test("a list that cannot be read to its end is refused", () => {
    const { owner, data } = makeMint(TOKEN_2022_PROGRAM, permanentDelegate);
    const longer = data.slice();
    longer.set(integer(33, 2), EXTENSIONS_OFFSET + 2);
    const cut = [data.slice(0, -1), data.slice(0, EXTENSIONS_OFFSET + 3), longer];
    for (const bytes of [...cut, Buffer.concat([data, NO_BYTE])]) {
      expect(fault({ owner, data: bytes })).toBe("its extensions cannot be read");
    }
  });

  test("values of another length than theirs are refused", () => {
    for (const [type, bytes] of [
      [1, 107],
      [14, 63],
      [6, 2],
    ] as const) {
      const { owner, data } = makeMint(TOKEN_2022_PROGRAM, permanentDelegate);
      const header = [...integer(type, 2), ...integer(bytes, 2)];
      const list = Buffer.concat([Uint8Array.from(header), new Uint8Array(bytes)]);
      const account = { owner, data: Buffer.concat([data.slice(0, EXTENSIONS_OFFSET), list]) };
      expect(fault(account)).toBe("its extensions cannot be read");
    }
  });

  test("a token account is no mint, though it is as long", () => {
    const { owner, data } = makeMint(TOKEN_2022_PROGRAM, permanentDelegate);
    for (const type of [0, 2]) {
      data[165] = type;
      expect(fault({ owner, data })).toBe("the account is not an initialized mint");
    }
  });
});
