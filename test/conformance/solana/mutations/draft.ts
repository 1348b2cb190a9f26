/**
 * A transaction as a list of instructions that a mutation may change in any way, and its message: accounts
 * are gathered, ordered and numbered as every client does it, whatever they are.
 */
import { AccountRole, type Instruction } from "@solana/kit";
import type { Message, MessageConfig } from "../../../../src/mechanism/solana/message.ts";
import type { TransactionVersion } from "../../../../src/x402/solana-transaction.ts";

/** Rights that an instruction asks for. */
export interface DraftAccount {
  readonly address: string;
  readonly role: AccountRole;
}

export interface DraftInstruction {
  readonly program: string;
  readonly accounts: readonly DraftAccount[];
  readonly data: Uint8Array;
}

export interface Draft {
  readonly version: TransactionVersion;
  readonly feePayer: string;
  readonly blockhash: string;
  readonly instructions: readonly DraftInstruction[];
  /** Version 0: accounts that are in there are looked up. */
  readonly table: { readonly address: string; readonly entries: readonly string[] } | null;
  /** Version 1. */
  readonly config: MessageConfig | null;
}

export function draftInstruction(instruction: Instruction): DraftInstruction {
  const accounts = (instruction.accounts ?? []).map(({ address, role }) => ({ address, role }));
  return {
    program: instruction.programAddress,
    accounts,
    data: Uint8Array.from(instruction.data ?? []),
  };
}

const SIGNER = AccountRole.READONLY_SIGNER;
const WRITABLE = AccountRole.WRITABLE;

/** The message of a draft: its fee payer, signers, accounts and programs in the order that is the rule. */
export function compile(draft: Draft): Message {
  const roles = rolesOf(draft);
  const lookedUp = findLookedUp(draft, roles);
  const named = [...roles].filter(([address]) => !lookedUp.has(address));
  const [writableSigners, readonlySigners, writable, readonly] = [
    SIGNER | WRITABLE,
    SIGNER,
    WRITABLE,
    AccountRole.READONLY,
  ].map((wanted) => named.flatMap(([address, role]) => (role === wanted ? [address] : [])));
  const signers = [...(writableSigners ?? []), ...(readonlySigners ?? [])];
  const keys = [...signers, ...(writable ?? []), ...(readonly ?? [])];
  const lookups = lookupsOf(draft, roles, lookedUp);
  const accounts = [...keys, ...lookups.addresses];
  return {
    version: draft.version,
    requiredSignatures: signers.length,
    readonlySigned: readonlySigners?.length ?? 0,
    readonlyUnsigned: readonly?.length ?? 0,
    keys,
    blockhash: draft.blockhash,
    instructions: draft.instructions.map(({ program, accounts: used, data }) => ({
      program: accounts.indexOf(program),
      accounts: Uint8Array.from(used, ({ address }) => accounts.indexOf(address)),
      data,
    })),
    lookups: lookups.entries,
    config: draft.version === 1 ? (draft.config ?? NO_CONFIG) : null,
  };
}

const NO_CONFIG: MessageConfig = {
  priorityFeeLamports: null,
  computeUnitLimit: null,
  loadedAccountsBytes: null,
  heapBytes: null,
};

/** The most that any instruction asks for, by address; the fee payer first. */
function rolesOf({ feePayer, instructions }: Draft): Map<string, number> {
  const roles = new Map<string, number>([[feePayer, SIGNER | WRITABLE]]);
  for (const { program, accounts } of instructions) {
    for (const { address, role } of [...accounts, { address: program, role: 0 }]) {
      roles.set(address, (roles.get(address) ?? 0) | role);
    }
  }
  return roles;
}

/** Neither signers nor programs can be looked up. */
function findLookedUp(
  { version, table, instructions }: Draft,
  roles: ReadonlyMap<string, number>,
): ReadonlySet<string> {
  if (version !== 0 || table === null) return new Set();
  const programs = new Set(instructions.map(({ program }) => program));
  const candidates = table.entries.filter((address) => {
    const role = roles.get(address);
    return role !== undefined && (role & SIGNER) === 0 && !programs.has(address);
  });
  return new Set(candidates);
}

function lookupsOf(
  { table }: Draft,
  roles: ReadonlyMap<string, number>,
  lookedUp: ReadonlySet<string>,
): { readonly entries: Message["lookups"]; readonly addresses: readonly string[] } {
  if (table === null || lookedUp.size === 0) return { entries: [], addresses: [] };
  const isWritable = (address: string): boolean => ((roles.get(address) ?? 0) & WRITABLE) !== 0;
  const writable = [...lookedUp].filter(isWritable);
  const readonly = [...lookedUp].filter((address) => !isWritable(address));
  const indices = (addresses: readonly string[]): Uint8Array =>
    Uint8Array.from(addresses, (address) => table.entries.indexOf(address));
  const entry = { table: table.address, writable: indices(writable), readonly: indices(readonly) };
  return { entries: [entry], addresses: [...writable, ...readonly] };
}
