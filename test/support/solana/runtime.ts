/**
 * The Solana runtime in this process (LiteSVM): accounts, programs, execution and simulation. It knows no
 * slots, queue or commitment, and checks neither blockhashes nor signatures: all that is the cluster's.
 */
import { Account, Clock, FailedTransactionMetadata, type TransactionMetadata } from "litesvm";
import { LiteSvm, type AddressAndAccount } from "litesvm/dist/internal.js";
import { fromBase58, toBase58 } from "./base58.ts";
import { transactionErrorOf, type TransactionError } from "./transaction-error.ts";
import { isWritable, type WireTransaction } from "./wire-transaction.ts";

/** Lookup table accounts: the header before the addresses, bytes. */
const LOOKUP_TABLE_HEADER_BYTES = 56;
const KEY_BYTES = 32;
/** Accounts loaded count as their data plus this, and a table as this much in all (SIMD-0186), bytes. */
const LOADED_ACCOUNT_BYTES = 64;
const LOADED_TABLE_BYTES = 8_248;
const UPGRADEABLE_LOADER = "BPFLoaderUpgradeab1e11111111111111111111111";
/** An upgradeable program's account names its code account after this many bytes. */
const PROGRAM_DATA_OFFSET = 4;
const DEFAULT_EPOCH_SLOTS = 432_000n;

/** An account as the cluster stores it. */
export interface StoredAccount {
  readonly lamports: bigint;
  readonly data: Uint8Array;
  /** The program that it belongs to, base58. */
  readonly owner: string;
  readonly executable: boolean;
}

export interface InnerInstructions {
  readonly index: number;
  readonly instructions: readonly {
    readonly programIdIndex: number;
    readonly accounts: readonly number[];
    readonly data: string;
    readonly stackHeight: number;
  }[];
}

/** What running a transaction came to. */
export interface Outcome {
  readonly err: TransactionError | null;
  /** Whether it got as far as running: then its fee is paid even when it failed. */
  readonly hasRun: boolean;
  readonly logs: readonly string[];
  readonly unitsConsumed: number;
  readonly returnData: {
    readonly programId: string;
    readonly data: readonly [string, "base64"];
  } | null;
  readonly innerInstructions: readonly InnerInstructions[];
}

export interface Simulated extends Outcome {
  /** The accounts as they would be, by address. */
  readonly after: ReadonlyMap<string, StoredAccount>;
}

/** The keys of a message with its lookup tables resolved, as far as they can be. */
export interface ResolvedKeys {
  readonly keys: readonly string[];
  readonly writable: readonly string[];
  readonly loaded: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
}

export class Runtime {
  readonly #svm = new LiteSvm();

  constructor() {
    this.#svm.setSigverify(false);
    this.#svm.setBlockhashCheck(false);
    this.#svm.setTransactionHistory(0n);
  }

  account(address: string): StoredAccount | null {
    const account = this.#svm.getAccount(fromBase58(address));
    // An account without lamports is gone, though the runtime may still hold its shell.
    return account === null || account.lamports() === 0n ? null : storedAccount(account);
  }

  setAccount(address: string, { lamports, data, owner, executable }: StoredAccount): void {
    const account = new Account(lamports, data, fromBase58(owner), executable, 0n);
    this.#svm.setAccount(fromBase58(address), account);
  }

  accountsOwnedBy(program: string): readonly (readonly [string, StoredAccount])[] {
    return this.#svm.getProgramAccounts(fromBase58(program)).map(addressed);
  }

  loadProgram(address: string, elf: Uint8Array): void {
    this.#svm.addProgram(fromBase58(address), elf);
  }

  rentExemption(dataBytes: bigint): bigint {
    return this.#svm.minimumBalanceForRentExemption(dataBytes);
  }

  /** Sets the sysvars that programs see in this slot. `hashes`: newest first. */
  enterSlot(
    slot: number,
    unixSeconds: number,
    hashes: readonly { readonly slot: number; readonly blockhash: string }[],
  ): void {
    this.#svm.expireBlockhash();
    const at = BigInt(slot);
    const epoch = at / DEFAULT_EPOCH_SLOTS;
    const seconds = BigInt(unixSeconds);
    this.#svm.setClock(new Clock(at, seconds, epoch, epoch + 1n, seconds));
    this.#svm.setSlotHashes(
      hashes.map(({ slot, blockhash }) => ({ slot: BigInt(slot), hash: blockhash })),
    );
  }

  /** Runs it and keeps what it changed. */
  execute(wire: WireTransaction): Outcome {
    const result = this.#svm.sendVersionedTransaction(wire.bytes);
    if (result instanceof FailedTransactionMetadata) return this.#failed(wire, result);
    return outcomeOf(result, null);
  }

  /** Runs it and keeps nothing. */
  simulate(wire: WireTransaction): Simulated {
    const result = this.#svm.simulateVersionedTransaction(wire.bytes);
    if (result instanceof FailedTransactionMetadata) {
      return { ...this.#failed(wire, result), after: new Map() };
    }
    const after = new Map(result.postAccounts().map(addressed));
    return { ...outcomeOf(result.meta(), null), after };
  }

  /** The runtime has one error for programs that are missing and for those that are no programs. */
  #failed(wire: WireTransaction, failed: FailedTransactionMetadata): Outcome {
    const err = transactionErrorOf(failed);
    const isMissing = ({ programIndex }: { programIndex: number }): boolean =>
      this.account(wire.staticKeys[programIndex] ?? "") === null;
    const isRenamed = err === "InvalidProgramForExecution" && wire.instructions.some(isMissing);
    return outcomeOf(failed.meta(), isRenamed ? "ProgramAccountNotFound" : err);
  }

  resolve(wire: WireTransaction): ResolvedKeys {
    const writable: string[] = [];
    const readonly: string[] = [];
    for (const lookup of wire.lookups) {
      const addresses = lookupTableAddresses(this.account(lookup.table));
      writable.push(...lookup.writable.flatMap((index) => addresses[index] ?? []));
      readonly.push(...lookup.readonly.flatMap((index) => addresses[index] ?? []));
    }
    return {
      keys: [...wire.staticKeys, ...writable, ...readonly],
      writable: [...wire.staticKeys.filter((_, index) => isWritable(wire, index)), ...writable],
      loaded: { writable, readonly },
    };
  }

  /** How much a transaction loads, bytes, as SIMD-0186 counts it. */
  loadedBytes(wire: WireTransaction): number {
    let total = wire.lookups.length * LOADED_TABLE_BYTES;
    for (const key of this.resolve(wire).keys) {
      const account = this.account(key);
      if (account === null) continue;
      total += LOADED_ACCOUNT_BYTES + account.data.length;
      if (account.owner !== UPGRADEABLE_LOADER || !account.executable) continue;
      const code = this.account(toBase58(account.data.subarray(PROGRAM_DATA_OFFSET)));
      total += code === null ? 0 : LOADED_ACCOUNT_BYTES + code.data.length;
    }
    return total;
  }
}

export function lookupTableAddresses(table: StoredAccount | null): string[] {
  const data = table?.data.subarray(LOOKUP_TABLE_HEADER_BYTES) ?? new Uint8Array();
  const count = Math.floor(data.length / KEY_BYTES);
  return Array.from({ length: count }, (_, index) =>
    toBase58(data.subarray(index * KEY_BYTES, (index + 1) * KEY_BYTES)),
  );
}

function storedAccount(account: Account): StoredAccount {
  return {
    lamports: account.lamports(),
    data: account.data(),
    owner: toBase58(account.owner()),
    executable: account.executable(),
  };
}

function addressed(each: AddressAndAccount): [string, StoredAccount] {
  return [toBase58(each.address), storedAccount(each.account())];
}

function outcomeOf(meta: TransactionMetadata, err: TransactionError | null): Outcome {
  const data = meta.returnData().data();
  return {
    err,
    // The runtime names a transaction only once it was loaded and its fee taken.
    hasRun: meta.signature().some((byte) => byte !== 0),
    logs: meta.logs(),
    unitsConsumed: Number(meta.computeUnitsConsumed()),
    returnData:
      data.length === 0
        ? null
        : {
            programId: toBase58(meta.returnData().programId()),
            data: [Buffer.from(data).toString("base64"), "base64"],
          },
    innerInstructions: meta.innerInstructions().flatMap((instructions, index) => {
      if (instructions.length === 0) return [];
      return [{ index, instructions: instructions.map(innerInstruction) }];
    }),
  };
}

function innerInstruction(
  each: ReturnType<TransactionMetadata["innerInstructions"]>[number][number],
): InnerInstructions["instructions"][number] {
  const instruction = each.instruction();
  return {
    programIdIndex: instruction.programIdIndex(),
    accounts: [...instruction.accounts()],
    data: toBase58(instruction.data()),
    stackHeight: each.stackHeight(),
  };
}
