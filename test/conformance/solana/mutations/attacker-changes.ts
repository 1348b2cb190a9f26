/** What somebody may do to a payment who wants something else than to pay. */
import type { AccountRole } from "@solana/kit";
import {
  ADDRESS_LOOKUP_TABLE_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from "../../../../src/mechanism/solana/programs.ts";
import type { Random } from "../../../simulation/random.ts";
import {
  advanceNonce,
  call,
  createAccount,
  heapFrame,
  integer,
  memo,
  signer,
  systemTransfer,
  transfer,
  unitLimit,
  unitPrice,
  writable,
  writableSigner,
} from "../../../support/solana-messages.ts";
import {
  at,
  changeAccount,
  changeInstruction,
  insert,
  withInstructions,
  without,
  type Changes,
  type Surroundings,
} from "./draft-changes.ts";
import { draftInstruction } from "./draft.ts";

/** Together with the signatures, all that a settlement may cost, lamports. */
const MAX_PRIORITY_FEE = 90_000n;
/** Prices of a unit are in millionths of a lamport. */
const MICRO_LAMPORTS = 1_000_000n;
/** Signers seldom: one signature too many hides whatever else is wrong. */
const ROLES = [0, 0, 0, 1, 1, 1, 2, 3] as const satisfies readonly AccountRole[];
const PROGRAMS = [
  SYSTEM_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  TOKEN_PROGRAM,
  TOKEN_2022_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
  MEMO_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  ADDRESS_LOOKUP_TABLE_PROGRAM,
  "Ed25519SigVerify111111111111111111111111111",
  "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
] as const;

const someBytes = (random: Random, most: number): Uint8Array =>
  Uint8Array.from({ length: random.between(0, most) }, () =>
    random.chance(0.5) ? random.between(0, 20) : random.between(0, 255),
  );

/** Numbers at the edges of what is allowed, and far beyond. */
function someNumber(random: Random, around: bigint): bigint {
  const near = around + BigInt(random.between(-2, 2));
  const far = 2n ** BigInt(random.between(0, 64)) - 1n;
  const picked = random.pick([near, near, near, far, 0n, around * 2n, 2n ** 64n - 1n]);
  return BigInt.asUintN(64, picked);
}

export const ATTACKER_CHANGES: Changes = [
  [
    "an instruction less",
    (draft, random) =>
      withInstructions(draft, draft.instructions.toSpliced(at(random, draft.instructions), 1)),
  ],
  [
    "an instruction twice",
    (draft, random) => {
      const place = at(random, draft.instructions);
      const again = draft.instructions.slice(place, place + 1);
      return withInstructions(draft, draft.instructions.toSpliced(place, 0, ...again));
    },
  ],
  [
    "two instructions swapped",
    (draft, random) => {
      const [one, other] = [at(random, draft.instructions), at(random, draft.instructions)];
      const [first, second] = [draft.instructions[one], draft.instructions[other]];
      if (first === undefined || second === undefined) return draft;
      return withInstructions(draft, draft.instructions.with(one, second).with(other, first));
    },
  ],
  [
    "any instruction",
    (draft, random, { pool }) => {
      const accounts = Array.from({ length: random.between(0, 6) }, () => ({
        address: random.pick(pool),
        role: random.pick(ROLES),
      }));
      return insert(draft, random, call(random.pick(PROGRAMS), someBytes(random, 12), accounts));
    },
  ],
  [
    "an attack",
    (draft, random, around) => insert(draft, random, random.pick(attacks(random, around))()),
  ],
  [
    "an instruction exchanged for an attack",
    (draft, random, around) =>
      changeInstruction(draft, random, () =>
        draftInstruction(random.pick(attacks(random, around))()),
      ),
  ],
  [
    "another program",
    (draft, random) =>
      changeInstruction(draft, random, (found) => ({ ...found, program: random.pick(PROGRAMS) })),
  ],
  [
    "another account",
    (draft, random, { pool }) =>
      changeAccount(draft, random, (account) => ({ ...account, address: random.pick(pool) })),
  ],
  [
    "other rights",
    (draft, random) =>
      changeAccount(draft, random, (account) => ({ ...account, role: random.pick(ROLES) })),
  ],
  [
    "an account more",
    (draft, random, { pool }) =>
      changeInstruction(draft, random, (found) => {
        const added = { address: random.pick(pool), role: random.pick(ROLES) };
        const place = random.between(0, found.accounts.length);
        return { ...found, accounts: found.accounts.toSpliced(place, 0, added) };
      }),
  ],
  [
    "an account less",
    (draft, random) =>
      changeInstruction(draft, random, (found) => ({
        ...found,
        accounts: found.accounts.toSpliced(at(random, found.accounts), 1),
      })),
  ],
  [
    "a byte of data",
    (draft, random) =>
      changeInstruction(draft, random, (found) => {
        const place = at(random, found.data);
        if (found.data.length === 0) return found;
        return { ...found, data: found.data.with(place, random.between(0, 255)) };
      }),
  ],
  [
    "other data",
    (draft, random) =>
      changeInstruction(draft, random, (found) => ({ ...found, data: someBytes(random, 12) })),
  ],
  [
    "another amount",
    (draft, random, { payment }) =>
      insert(
        without(draft, payment.tokenProgram),
        random,
        transfer(payment, { amount: someNumber(random, payment.amount) }),
      ),
  ],
  [
    "another price",
    (draft, random) => {
      const priority = someNumber(random, MAX_PRIORITY_FEE);
      const config = draft.config && { ...draft.config, priorityFeeLamports: priority };
      if (draft.version === 1) return { ...draft, config };
      const units = random.between(50_000, 1_500_000);
      const edge = (MAX_PRIORITY_FEE * MICRO_LAMPORTS) / BigInt(units);
      const rest = insert(without(draft, COMPUTE_BUDGET_PROGRAM), random, unitLimit(units));
      return insert(rest, random, unitPrice(someNumber(random, edge)));
    },
  ],
  [
    "a heap",
    (draft, random) =>
      draft.config === null
        ? insert(draft, random, heapFrame(65_536))
        : { ...draft, config: { ...draft.config, heapBytes: 65_536 } },
  ],
  ["another fee payer", (draft, random, { pool }) => ({ ...draft, feePayer: random.pick(pool) })],
  ["another blockhash", (draft, random, { pool }) => ({ ...draft, blockhash: random.pick(pool) })],
];

/** Made only when it is chosen: an instruction takes a while to be checked. */
type Attack = () => ReturnType<typeof call>;

/** Instructions that would cost us something, were they signed. */
function attacks(random: Random, around: Surroundings): readonly [Attack, ...Attack[]] {
  const { payment, ourTokens, stranger, strangerTokens } = around;
  const { feePayer, payer } = payment;
  const [ours, spendable] = ourTokens;
  const lamports = BigInt(random.between(1, 2 ** 31));
  const token = (data: ArrayLike<number>, ...accounts: Parameters<typeof call>[2] & {}) =>
    call(payment.tokenProgram, data, accounts);
  const account = random.pick([ours, spendable]);
  return [
    () => systemTransfer(feePayer, random.chance(0.5) ? stranger : payer.address, lamports),
    () =>
      call(
        SYSTEM_PROGRAM,
        [0, 0, 0, 0, ...integer(2_039_280n, 8), ...integer(165n, 8), ...new Uint8Array(32)],
        [writableSigner(feePayer), writableSigner(payer.address)],
      ),
    () =>
      call(SYSTEM_PROGRAM, [1, 0, 0, 0, ...new Uint8Array(32).fill(7)], [writableSigner(feePayer)]),
    () => createAccount(payment, { funder: feePayer }),
    () => createAccount(payment, { owner: feePayer, account: ours }),
    () => createAccount(payment, { owner: stranger, account: strangerTokens }),
    () => transfer(payment, { source: account, authority: feePayer }),
    () => transfer(payment, { source: account }),
    () => transfer(payment, { source: account, destination: strangerTokens, amount: 1n }),
    () => transfer(payment, { destination: strangerTokens }),
    () =>
      token([4, ...integer(2n ** 64n - 1n, 8)], writable(account), payer.address, signer(feePayer)),
    () => token([4, ...integer(1n, 8)], writable(account), stranger, signer(payer.address)),
    () => token([6, 2, 1, ...new Uint8Array(32).fill(9)], writable(account), signer(feePayer)),
    () => token([9], writable(account), writable(stranger), signer(feePayer)),
    () =>
      token([8, ...integer(1n, 8)], writable(account), writable(payment.asset), signer(feePayer)),
    () => memo("the facilitator owes me", [feePayer]),
    () => call(LIGHTHOUSE_PROGRAM, [random.between(0, 1), 4], [writableSigner(feePayer)]),
    () => call(LIGHTHOUSE_PROGRAM, [random.between(16, 255), 4], [signer(payer.address)]),
    () => advanceNonce(around.nonce, payer.address),
    () => unitPrice(2n ** BigInt(random.between(16, 63))),
    () => heapFrame(65_536),
  ];
}
