/** Which assertions are taken: those that Phantom adds, to the last byte, and nothing beside them. */
import type { Instruction } from "@solana/kit";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { judgeAssertions } from "../../../../src/mechanism/solana/lighthouse.ts";
import { LIGHTHOUSE_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import {
  balanceGuard,
  call,
  contentGuard,
  createAccount,
  destinationOf,
  integer,
  sourceOf,
  testKey,
  tokenGuard,
  transfer,
  walletGuard,
} from "../../../support/solana-messages.ts";
import { judgePlan, PAYMENT, planOf, verdict } from "./judging.ts";

const PAYER = PAYMENT.payer.address;
const { feePayer: FEE_PAYER, asset: MINT } = PAYMENT;
const SOURCE = sourceOf(PAYMENT);
const DESTINATION = destinationOf(PAYMENT);
const STRANGER = testKey(9).address;
const CLOCK = "SysvarC1ock11111111111111111111111111111111";
const KEY = new Uint8Array(32).fill(5);
/** To log as text what fails. */
const LEVEL = 4;

const EQUAL = 0;
const [NOT_EQUAL, GREATER, LESS, AT_LEAST, AT_MOST] = [1, 2, 3, 4, 5];

const lighthouse = (data: ArrayLike<number>, accounts: readonly string[]): Instruction =>
  call(LIGHTHOUSE_PROGRAM, data, accounts);
const judgeOne = (instruction: Instruction): string => verdict(planOf({ last: [instruction] }));
const info = (account: string, ...comparison: number[]): string =>
  judgeOne(lighthouse([6, LEVEL, 1, ...comparison], [account]));
const tokens = (account: string, ...comparison: number[]): string =>
  judgeOne(lighthouse([10, LEVEL, 1, ...comparison], [account]));

const ofSystem = [3, 0, EQUAL];
const ofToken = [3, 1, EQUAL];
const holds = (bytes: number): number[] => [1, ...integer(bytes, 8), EQUAL];
const hasNoDelegate = [3, 0, EQUAL];
const delegatesNothing = [6, ...integer(0, 8), AT_MOST];
const isAssociated = [8];
const key = (field: number): number[] => [field, ...KEY, EQUAL];

/** What Phantom adds on the main network, by its shapes; and the account that each can be about. */
const SEEN: readonly (readonly [what: string, data: readonly number[], account: string])[] = [
  ["that our wallet is one", [6, LEVEL, 2, ...ofSystem, ...holds(0)], FEE_PAYER],
  ["that the payer's is one", [6, LEVEL, 2, ...ofSystem, ...holds(0)], PAYER],
  [
    "what the fee payer keeps",
    [6, LEVEL, 3, 0, ...integer(131_770_299, 8), AT_LEAST, ...ofSystem, ...holds(0)],
    FEE_PAYER,
  ],
  [
    "the payer's tokens as they were",
    [6, LEVEL, 3, ...ofToken, ...holds(165), 8, ...KEY, 0, 0xa5, 1],
    SOURCE,
  ],
  [
    "the payer's tokens afterwards",
    [
      10,
      LEVEL,
      4,
      2,
      ...integer(5, 8),
      AT_LEAST,
      ...hasNoDelegate,
      ...delegatesNothing,
      ...isAssociated,
    ],
    SOURCE,
  ],
  [
    "the payee's associated tokens",
    [10, LEVEL, 3, ...hasNoDelegate, ...delegatesNothing, ...isAssociated],
    DESTINATION,
  ],
  [
    "the payee's tokens",
    [10, LEVEL, 4, ...hasNoDelegate, ...delegatesNothing, ...key(1), ...key(0)],
    DESTINATION,
  ],
];

describe("what Phantom adds is taken", () => {
  test.each(SEEN)("%s", (_, data, account) => {
    expect(judgeOne(lighthouse(data, [account]))).toBe("accepted");
  });

  test.each(SEEN)("%s, and not a byte more or less of it", (_, data, account) => {
    expect(judgeOne(lighthouse([...data, 0], [account]))).not.toBe("accepted");
    for (let length = 0; length < data.length; length += 1) {
      const said = judgeOne(lighthouse(data.slice(0, length), [account]));
      expect(said).toMatch(/Lighthouse|uses the fee payer's account/);
    }
  });

  test("and what it wants the fee payer to keep is known", () => {
    const guards = [5n, 700n, 6n].map((lamports) => walletGuard(FEE_PAYER, lamports));
    const payers = walletGuard(PAYER, 9_000n);
    expect(judgePlan(planOf({ last: [...guards, payers] }))).toMatchObject({
      value: { isGuarded: true, feePayerKeeps: 700n },
    });
    expect(judgePlan(planOf())).toMatchObject({ value: { isGuarded: false, feePayerKeeps: 0n } });
  });
});

describe("what time or strangers can make untrue is refused, with advice:", () => {
  test.each<readonly [string, string]>([
    ["the clock", judgeOne(lighthouse([15, LEVEL, 0, ...integer(7, 8), AT_MOST], []))],
    ["the clock's account", info(CLOCK, 1, ...integer(40, 8), EQUAL)],
    ["data of a busy account", judgeOne(lighthouse([2, LEVEL, 0, 0, 1, 0], [DESTINATION]))],
    ["a stranger's lamports", info(STRANGER, 0, ...integer(7, 8), AT_LEAST)],
    ["a stranger's tokens", judgeOne(tokenGuard(STRANGER))],
    ["the mint", info(MINT, 1, ...integer(82, 8), EQUAL)],
    ["the payee's balance", judgeOne(balanceGuard(DESTINATION, 1n))],
    ["the payee's data", judgeOne(contentGuard(DESTINATION))],
    ["the payee's lamports", info(DESTINATION, 0, ...integer(0, 8), EQUAL)],
    ["two accounts", judgeOne(lighthouse([6, LEVEL, 1, 3, 0, 0], [PAYER, FEE_PAYER]))],
    ["no account", judgeOne(lighthouse([6, LEVEL, 1, 3, 0, 0], []))],
    ["a wallet as a token account", tokens(PAYER, 8)],
  ])("%s", (_, said) => {
    expect(said).toMatch(/^instructions\[4\] is (?:a )?Lighthouse (?:instruction|assertion) /);
    expect(said).toMatch(/: sign with a wallet that adds no assertions, or with that wallet's/);
  });

  test.each([2, 3, 5, 7, 8, 9, 11, 14, 15])("by instruction %i, whatever it is about", (opcode) => {
    for (const account of [PAYER, SOURCE, DESTINATION]) {
      const said = judgeOne(lighthouse([opcode, LEVEL, 1, 3, 0, EQUAL], [account]));
      expect(said).toMatch(/^instructions\[4\] is Lighthouse instruction \d+; only 6 and 10/);
    }
  });

  test("tokens that are lent to the payer, which others may move", () => {
    const lent = testKey(12).address;
    const plan = planOf({
      transfer: [transfer(PAYMENT, { source: lent })],
      last: [tokenGuard(lent)],
    });
    expect(verdict(plan)).toMatch(/^instructions\[4\] is Lighthouse assertion 10 about/);
  });

  test("the payee's account that this payment creates, which another may have created", () => {
    const guard = lighthouse([6, LEVEL, 1, 0, ...integer(0, 8), EQUAL], [DESTINATION]);
    expect(verdict(planOf({ first: [createAccount(PAYMENT)], last: [guard] }))).toMatch(
      /^instructions\[5\] is Lighthouse assertion 6 about/,
    );
  });
});

describe("with another comparison than Phantom's it is refused:", () => {
  test.each([EQUAL, NOT_EQUAL, GREATER, LESS, AT_MOST, 6, 7])(
    "lamports, by operator %i",
    (operator) => {
      for (const wallet of [FEE_PAYER, PAYER]) {
        expect(info(wallet, 0, ...integer(1, 8), operator)).toMatch(/is none of Phantom's/);
      }
      expect(info(PAYER, 0, ...integer(1, 8), AT_LEAST)).toBe("accepted");
    },
  );

  test.each([NOT_EQUAL, GREATER, LESS, AT_LEAST, 6, 7])("tokens, by operator %i", (operator) => {
    expect(tokens(SOURCE, 6, ...integer(1, 8), operator)).toMatch(/is none of Phantom's/);
    const isAmountsOwn = operator === AT_LEAST;
    const amount = tokens(SOURCE, 2, ...integer(1, 8), operator);
    expect(amount === "accepted").toBe(isAmountsOwn);
  });

  test.each([
    ["rent epoch", [4, ...integer(0, 8), EQUAL]],
    ["that it signs", [5, 1, EQUAL]],
    ["that it is writable", [6, 1, EQUAL]],
    ["that it is a program", [7, 0, EQUAL]],
    ["a hash of a wallet's data", [8, ...KEY, 0, 0]],
    ["another owner", [2, ...KEY, NOT_EQUAL]],
    ["another known owner", [3, 0, NOT_EQUAL]],
    ["an unknown field", [9, 0]],
  ])("%s of a wallet", (_, comparison) => {
    expect(info(PAYER, ...comparison)).toMatch(/is none of Phantom's|of another length/);
  });

  test.each([
    ["some delegate", [3, 1, ...KEY, EQUAL]],
    ["any delegate but none", [3, 0, NOT_EQUAL]],
    ["state", [4, 1, EQUAL]],
    ["native", [5, 0, EQUAL]],
    ["close authority", [7, 0, EQUAL]],
    ["an unknown field", [9]],
  ])("%s of tokens", (_, comparison) => {
    expect(tokens(SOURCE, ...comparison)).toMatch(/is none of Phantom's/);
  });

  test.each([3, 6, 7, 255])("log level %i, which may call another program", (level) => {
    expect(judgeOne(lighthouse([6, level, 1, 3, 0, 0], [PAYER]))).toMatch(/calls another program/);
  });

  test.each([0, 9, 0x81])("%i comparisons", (count) => {
    const all = Array.from({ length: count }, () => [3, 0, 0]).flat();
    expect(judgeOne(lighthouse([6, LEVEL, count, ...all], [PAYER]))).toMatch(/1 to 8 are allowed/);
  });
});

test("whatever the bytes, nothing but Phantom's comparisons of a wallet is taken", () => {
  const asserted = {
    feePayer: FEE_PAYER,
    payer: PAYER,
    payerTokens: () => SOURCE,
    destination: DESTINATION,
  };
  // Small ones mean something; mostly.
  const byte = fc.oneof({ weight: 9, arbitrary: fc.nat(9) }, fc.nat(255));
  fc.assert(
    fc.property(
      fc.array(byte, { maxLength: 30 }),
      fc.constantFrom(FEE_PAYER, PAYER),
      (rest, wallet) => {
        const data = Uint8Array.from([6, LEVEL, ...rest]);
        const found = { index: 0, program: LIGHTHOUSE_PROGRAM, accounts: [wallet], data };
        const judged = judgeAssertions([found], "assertions", asserted);
        expect(judged.ok).toBe(isPhantoms(Buffer.from(rest)));
      },
    ),
    { numRuns: 5_000 },
  );
});

/** The same once more, by another way: a pattern of the bytes' hex. */
function isPhantoms(rest: Buffer): boolean {
  const lamports = "00[0-9a-f]{16}04";
  const bytes = "01[0-9a-f]{16}00";
  const owner = "02[0-9a-f]{64}00";
  const known = "03[0-9a-f]{2}00";
  const count = rest[0] ?? 0;
  if (count === 0 || count > 8) return false;
  return new RegExp(`^0[1-8](?:${lamports}|${bytes}|${owner}|${known}){${count}}$`).test(
    rest.toString("hex"),
  );
}
