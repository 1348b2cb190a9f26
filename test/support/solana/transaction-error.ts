/**
 * Why a transaction failed, in the JSON shape that Agave serialises (`"BlockhashNotFound"`,
 * `{"InstructionError":[2,{"Custom":1}]}`) and in its words.
 */
import type { FailedTransactionMetadata } from "litesvm";

/** As in the `err` of every answer. */
export type TransactionError = string | Readonly<Record<string, unknown>>;

/** In the order of the runtime's numbers. */
const TRANSACTION_ERRORS: readonly (readonly [name: string, words: string])[] = [
  ["AccountInUse", "Account in use"],
  ["AccountLoadedTwice", "Account loaded twice"],
  ["AccountNotFound", "Attempt to debit an account but found no record of a prior credit."],
  ["ProgramAccountNotFound", "Attempt to load a program that does not exist"],
  ["InsufficientFundsForFee", "Insufficient funds for fee"],
  ["InvalidAccountForFee", "This account may not be used to pay transaction fees"],
  ["AlreadyProcessed", "This transaction has already been processed"],
  ["BlockhashNotFound", "Blockhash not found"],
  ["CallChainTooDeep", "Loader call chain is too deep"],
  ["MissingSignatureForFee", "Transaction requires a fee but has no signature present"],
  ["InvalidAccountIndex", "Transaction contains an invalid account reference"],
  ["SignatureFailure", "Transaction did not pass signature verification"],
  ["InvalidProgramForExecution", "This program may not be used for executing instructions"],
  ["SanitizeFailure", "Transaction failed to sanitize accounts offsets correctly"],
  ["ClusterMaintenance", "Transactions are currently disabled due to cluster maintenance"],
  [
    "AccountBorrowOutstanding",
    "Transaction processing left an account with an outstanding borrowed reference",
  ],
  ["WouldExceedMaxBlockCostLimit", "Transaction would exceed max Block Cost Limit"],
  ["UnsupportedVersion", "Transaction version is unsupported"],
  ["InvalidWritableAccount", "Transaction loads a writable account that cannot be written"],
  ["WouldExceedMaxAccountCostLimit", "Transaction would exceed max account limit within the block"],
  [
    "WouldExceedAccountDataBlockLimit",
    "Transaction would exceed account data limit within the block",
  ],
  ["TooManyAccountLocks", "Transaction locked too many accounts"],
  ["AddressLookupTableNotFound", "Transaction loads an address table account that doesn't exist"],
  [
    "InvalidAddressLookupTableOwner",
    "Transaction loads an address table account with an invalid owner",
  ],
  ["InvalidAddressLookupTableData", "Transaction loads an address table account with invalid data"],
  ["InvalidAddressLookupTableIndex", "Transaction address table lookup uses an invalid index"],
  [
    "InvalidRentPayingAccount",
    "Transaction leaves an account with a lower balance than rent-exempt minimum",
  ],
  ["WouldExceedMaxVoteCostLimit", "Transaction would exceed max Vote Cost Limit"],
  ["WouldExceedAccountDataTotalLimit", "Transaction would exceed total account data limit"],
  ["MaxLoadedAccountsDataSizeExceeded", "Transaction exceeded max loaded accounts data size cap"],
  ["ResanitizationNeeded", "ResanitizationNeeded"],
  [
    "InvalidLoadedAccountsDataSizeLimit",
    "LoadedAccountsDataSizeLimit set for transaction must be greater than 0.",
  ],
  ["UnbalancedTransaction", "Sum of account balances before and after transaction do not match"],
  ["ProgramCacheHitMaxLimit", "Program cache hit max limit"],
  ["CommitCancelled", "CommitCancelled"],
];

/** In the order of the runtime's numbers. */
const INSTRUCTION_ERRORS: readonly string[] = [
  "GenericError",
  "InvalidArgument",
  "InvalidInstructionData",
  "InvalidAccountData",
  "AccountDataTooSmall",
  "InsufficientFunds",
  "IncorrectProgramId",
  "MissingRequiredSignature",
  "AccountAlreadyInitialized",
  "UninitializedAccount",
  "UnbalancedInstruction",
  "ModifiedProgramId",
  "ExternalAccountLamportSpend",
  "ExternalAccountDataModified",
  "ReadonlyLamportChange",
  "ReadonlyDataModified",
  "DuplicateAccountIndex",
  "ExecutableModified",
  "RentEpochModified",
  "NotEnoughAccountKeys",
  "AccountDataSizeChanged",
  "AccountNotExecutable",
  "AccountBorrowFailed",
  "AccountBorrowOutstanding",
  "DuplicateAccountOutOfSync",
  "InvalidError",
  "ExecutableDataModified",
  "ExecutableLamportChange",
  "ExecutableAccountNotRentExempt",
  "UnsupportedProgramId",
  "CallDepth",
  "MissingAccount",
  "ReentrancyNotAllowed",
  "MaxSeedLengthExceeded",
  "InvalidSeeds",
  "InvalidRealloc",
  "ComputationalBudgetExceeded",
  "PrivilegeEscalation",
  "ProgramEnvironmentSetupFailure",
  "ProgramFailedToComplete",
  "ProgramFailedToCompile",
  "Immutable",
  "IncorrectAuthority",
  "AccountNotRentExempt",
  "InvalidAccountOwner",
  "ArithmeticOverflow",
  "UnsupportedSysvar",
  "IllegalOwner",
  "MaxAccountsDataAllocationsExceeded",
  "MaxAccountsExceeded",
  "MaxInstructionTraceLengthExceeded",
  "BuiltinProgramsMustConsumeComputeUnits",
  "BorshIoError",
];

/** Instruction errors whose words are not just their name taken apart. */
const INSTRUCTION_WORDS: Readonly<Record<string, string>> = {
  GenericError: "generic instruction error",
  InvalidArgument: "invalid program argument",
  InvalidAccountData: "invalid account data for instruction",
  AccountDataTooSmall: "account data too small for instruction",
  InsufficientFunds: "insufficient funds for instruction",
  IncorrectProgramId: "incorrect program id for instruction",
  MissingRequiredSignature: "missing required signature for instruction",
  AccountAlreadyInitialized: "instruction requires an uninitialized account",
  UninitializedAccount: "instruction requires an initialized account",
  NotEnoughAccountKeys: "insufficient account keys for instruction",
  InvalidSeeds: "Provided seeds do not result in a valid address",
  ComputationalBudgetExceeded: "Computational budget exceeded",
  ProgramFailedToComplete: "Program failed to complete",
  UnsupportedProgramId: "Unsupported program id",
};

/**
 * A node refuses these before it has a bank simulate anything: as invalid parameters of the call, in the
 * words of the error.
 */
const REFUSED_BEFORE_SIMULATION: ReadonlySet<string> = new Set([
  "AddressLookupTableNotFound",
  "InvalidAddressLookupTableOwner",
  "InvalidAddressLookupTableData",
  "InvalidAddressLookupTableIndex",
  "SanitizeFailure",
  "InvalidAccountIndex",
  "AccountLoadedTwice",
  "TooManyAccountLocks",
  "UnsupportedVersion",
]);

export function isRefusedBeforeSimulation(error: TransactionError): error is string {
  return typeof error === "string" && REFUSED_BEFORE_SIMULATION.has(error);
}

/** From what the runtime says. */
export function transactionErrorOf(failed: FailedTransactionMetadata): TransactionError {
  const error = failed.err();
  if (typeof error === "number") return nameOf(TRANSACTION_ERRORS, error);
  if ("accountIndex" in error) {
    const name = error.constructor.name.replace(/^TransactionError/, "");
    return { [name]: { account_index: error.accountIndex } };
  }
  if (!("err" in error)) return { DuplicateInstruction: error.index };
  const inner = error.err();
  if (typeof inner === "object" && "code" in inner) {
    return { InstructionError: [error.index, { Custom: inner.code }] };
  }
  const name = typeof inner === "number" ? INSTRUCTION_ERRORS[inner] : "BorshIoError";
  return { InstructionError: [error.index, name ?? "InvalidError"] };
}

/** As Agave words it after "Transaction simulation failed: ". */
export function wordsOf(error: TransactionError): string {
  if (typeof error === "string") {
    return TRANSACTION_ERRORS.find(([name]) => name === error)?.[1] ?? error;
  }
  const rent = error["InsufficientFundsForRent"];
  if (isRecord(rent)) {
    const index = String(rent["account_index"]);
    return `Transaction results in an account (${index}) with insufficient funds for rent`;
  }
  const instruction = error["InstructionError"];
  if (!Array.isArray(instruction)) return JSON.stringify(error);
  const [index, reason]: unknown[] = instruction;
  return `Error processing Instruction ${String(index)}: ${instructionWords(reason)}`;
}

function instructionWords(reason: unknown): string {
  if (isRecord(reason)) return `custom program error: 0x${Number(reason["Custom"]).toString(16)}`;
  const name = String(reason);
  return INSTRUCTION_WORDS[name] ?? name.replaceAll(/(?!^)[A-Z]/g, (letter) => ` ${letter}`);
}

function nameOf(table: readonly (readonly [string, string])[], index: number): string {
  return table[index]?.[0] ?? `UnknownError${index}`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
