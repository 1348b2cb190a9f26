/**
 * Builds Solana payments as wallets and clients do, and as they should not. Instructions are plain values that
 * a test may exchange; the bytes are written by `@solana/kit`, which knows nothing of our decoder.
 */
import {
  AccountRole,
  address,
  appendTransactionMessageInstructions,
  blockhash,
  compileTransaction,
  compressTransactionMessageUsingAddressLookupTables,
  createTransactionMessage,
  getTransactionEncoder,
  setTransactionMessageConfig,
  setTransactionMessageFeePayer,
  setTransactionMessageLifetimeUsingBlockhash,
  type Instruction,
  type V1TransactionConfig,
} from "@solana/kit";
import { associatedAccount } from "../../src/mechanism/solana/associated-account.ts";
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
} from "../../src/mechanism/solana/programs.ts";
import { Keypair } from "../../src/mechanism/solana/signing.ts";
import type { TransactionVersion } from "../../src/x402/solana-transaction.ts";

const SEED_BYTES = 32;
const SIGNATURE_BYTES = 64;

/** The same key for the same number, other keys for other numbers. */
export function testKey(number: number): Keypair {
  return new Keypair(new Uint8Array(SEED_BYTES).fill(number));
}

/** Circle's USDC on the main network. */
export const USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
/** A blockhash that no chain has. */
export const SOME_BLOCKHASH = "EkSnNWid2cvwEVnVx9aBqawnmiCNiDgp3gUdkDPTKN1N";

/** What is paid by whom to whom. Addresses in base58. */
export interface Payment {
  readonly feePayer: string;
  readonly payer: Keypair;
  readonly payTo: string;
  readonly asset: string;
  readonly decimals: number;
  readonly tokenProgram: string;
  /** Atomic units. */
  readonly amount: bigint;
}

/** One US cent in USDC. */
export function somePayment(changes: Partial<Payment> = {}): Payment {
  return {
    feePayer: testKey(1).address,
    payer: testKey(2),
    payTo: testKey(3).address,
    asset: USDC,
    decimals: 6,
    tokenProgram: TOKEN_PROGRAM,
    amount: 10_000n,
    ...changes,
  };
}

/** The payer's associated account. */
export function sourceOf({ payer, asset, tokenProgram }: Payment): string {
  return associatedAccount(payer.address, asset, tokenProgram);
}

/** The payee's associated account. */
export function destinationOf({ payTo, asset, tokenProgram }: Payment): string {
  return associatedAccount(payTo, asset, tokenProgram);
}

/** An account of an instruction: an address to read, or with more rights. */
export type Account = string | { readonly address: string; readonly role: AccountRole };

export const writable = (address: string): Account => ({ address, role: AccountRole.WRITABLE });
export const signer = (address: string): Account => ({
  address,
  role: AccountRole.READONLY_SIGNER,
});
export const writableSigner = (address: string): Account => ({
  address,
  role: AccountRole.WRITABLE_SIGNER,
});

/** Any instruction at all. */
export function call(
  program: string,
  data: ArrayLike<number>,
  accounts: readonly Account[] = [],
): Instruction {
  return {
    programAddress: address(program),
    accounts: accounts.map((account) =>
      typeof account === "string"
        ? { address: address(account), role: AccountRole.READONLY }
        : { ...account, address: address(account.address) },
    ),
    data: Uint8Array.from(data),
  };
}

/** Little-endian. */
export function integer(value: bigint | number, bytes: number): Uint8Array {
  const all = new DataView(new ArrayBuffer(8));
  all.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(all.buffer, 0, bytes);
}

export const unitLimit = (units: number): Instruction =>
  call(COMPUTE_BUDGET_PROGRAM, [2, ...integer(units, 4)]);
/** Millionths of a lamport for each unit. */
export const unitPrice = (price: bigint | number): Instruction =>
  call(COMPUTE_BUDGET_PROGRAM, [3, ...integer(price, 8)]);
export const loadedAccountsLimit = (bytes: number): Instruction =>
  call(COMPUTE_BUDGET_PROGRAM, [4, ...integer(bytes, 4)]);
export const heapFrame = (bytes: number): Instruction =>
  call(COMPUTE_BUDGET_PROGRAM, [1, ...integer(bytes, 4)]);

export const memo = (text: string | Uint8Array, signers: readonly string[] = []): Instruction =>
  call(MEMO_PROGRAM, typeof text === "string" ? Buffer.from(text) : text, signers.map(signer));

/** What a TransferChecked says, where it is something else than the payment. */
export interface TransferChanges {
  readonly source?: string;
  readonly destination?: string;
  readonly mint?: string;
  readonly authority?: string;
  readonly amount?: bigint;
  readonly decimals?: number;
  readonly program?: string;
  /** Behind the four that there are. */
  readonly moreAccounts?: readonly Account[];
}

export function transfer(payment: Payment, changes: TransferChanges = {}): Instruction {
  const { amount = payment.amount, decimals = payment.decimals } = changes;
  return call(
    changes.program ?? payment.tokenProgram,
    [12, ...integer(amount, 8), decimals],
    [
      writable(changes.source ?? sourceOf(payment)),
      changes.mint ?? payment.asset,
      writable(changes.destination ?? destinationOf(payment)),
      signer(changes.authority ?? payment.payer.address),
      ...(changes.moreAccounts ?? []),
    ],
  );
}

/** What a creation names, where it is something else than the payment's. */
export interface CreationChanges {
  readonly funder?: string;
  readonly account?: string;
  readonly owner?: string;
  readonly mint?: string;
  readonly systemProgram?: string;
  readonly tokenProgram?: string;
  readonly data?: readonly number[];
  readonly moreAccounts?: readonly Account[];
}

/** Creates the payee's token account, unless it is there. */
export function createAccount(payment: Payment, changes: CreationChanges = {}): Instruction {
  return call(ASSOCIATED_TOKEN_PROGRAM, changes.data ?? [1], [
    writableSigner(changes.funder ?? payment.payer.address),
    writable(changes.account ?? destinationOf(payment)),
    changes.owner ?? payment.payTo,
    changes.mint ?? payment.asset,
    changes.systemProgram ?? SYSTEM_PROGRAM,
    changes.tokenProgram ?? payment.tokenProgram,
    ...(changes.moreAccounts ?? []),
  ]);
}

export const systemTransfer = (from: string, to: string, lamports: bigint): Instruction =>
  call(SYSTEM_PROGRAM, [2, 0, 0, 0, ...integer(lamports, 8)], [writableSigner(from), writable(to)]);

/** Where it comes first, the blockhash is a durable nonce. */
export const advanceNonce = (nonceAccount: string, authority: string): Instruction =>
  call(
    SYSTEM_PROGRAM,
    [4, 0, 0, 0],
    [writable(nonceAccount), "SysvarRecentB1ockHashes11111111111111111111", signer(authority)],
  );

/** A guard as Phantom adds them: that a wallet keeps so many lamports, and stays an empty one of System. */
export function walletGuard(wallet: string, lamports = 0n): Instruction {
  const keepsLamports = [0, ...integer(lamports, 8), 4];
  const isOfSystem = [3, 0, 0];
  const isEmpty = [1, ...integer(0, 8), 0];
  // AssertAccountInfoMulti, logged as text where it fails.
  return call(LIGHTHOUSE_PROGRAM, [6, 4, 3, ...keepsLamports, ...isOfSystem, ...isEmpty], [wallet]);
}

/** A guard as Phantom adds them: that a token account is associated, and nobody is allowed to spend from it. */
export function tokenGuard(account: string): Instruction {
  const hasNoDelegate = [3, 0, 0];
  const delegatesNothing = [6, ...integer(0, 8), 5];
  const isAssociated = [8];
  const assertions = [...hasNoDelegate, ...delegatesNothing, ...isAssociated];
  return call(LIGHTHOUSE_PROGRAM, [10, 4, 3, ...assertions], [account]);
}

/** The same, and that so much is left at least. */
export function balanceGuard(account: string, amount: bigint): Instruction {
  const isLeft = [2, ...integer(amount, 8), 4];
  const rest = [3, 0, 0, 6, ...integer(0, 8), 5, 8];
  return call(LIGHTHOUSE_PROGRAM, [10, 4, 4, ...isLeft, ...rest], [account]);
}

/** A guard as Phantom adds them: that a token account is, byte for byte, what it was. */
export function contentGuard(account: string): Instruction {
  const isOfToken = [3, 1, 0];
  const isLong = [1, ...integer(165, 8), 0];
  // All 165 bytes.
  const hasHash = [8, ...new Uint8Array(32).fill(0xe7), 0, 0xa5, 1];
  return call(LIGHTHOUSE_PROGRAM, [6, 4, 3, ...isOfToken, ...isLong, ...hasHash], [account]);
}

/** A transaction before it is bytes. */
export interface Plan {
  readonly instructions: readonly Instruction[];
  readonly feePayer: string;
  /** 0 where it is not said. */
  readonly version?: TransactionVersion;
  readonly blockhash?: string;
  /** Version 0: accounts that are found in these tables are looked up there. */
  readonly tables?: Readonly<Record<string, readonly string[]>>;
  /** Version 1. */
  readonly config?: V1TransactionConfig;
  /** Those who sign; other places stay empty. */
  readonly signers: readonly Keypair[];
}

/** Base64, as a payload carries it. */
export function buildTransaction(plan: Plan): string {
  const { messageBytes, signatures } = compileTransaction(messageOf(plan));
  const signed = Object.keys(signatures).map((signer) => {
    const key = plan.signers.find(({ address }) => address === signer);
    return key?.sign(Uint8Array.from(messageBytes)) ?? new Uint8Array(SIGNATURE_BYTES);
  });
  const places = Object.keys(signatures).map((signer, index) => [signer, signed[index]]);
  const bytes = getTransactionEncoder().encode({
    messageBytes,
    signatures: Object.fromEntries(places),
  });
  return Buffer.from(bytes).toString("base64");
}

function messageOf(plan: Plan) {
  const lifetime = {
    blockhash: blockhash(plan.blockhash ?? SOME_BLOCKHASH),
    lastValidBlockHeight: 0n,
  };
  const payer = address(plan.feePayer);
  const { version = 0 } = plan;
  if (version === 1) {
    const empty = setTransactionMessageFeePayer(payer, createTransactionMessage({ version }));
    const dated = setTransactionMessageLifetimeUsingBlockhash(lifetime, empty);
    const configured = setTransactionMessageConfig(plan.config ?? {}, dated);
    return appendTransactionMessageInstructions(plan.instructions, configured);
  }
  if (version === "legacy") {
    const empty = setTransactionMessageFeePayer(payer, createTransactionMessage({ version }));
    const dated = setTransactionMessageLifetimeUsingBlockhash(lifetime, empty);
    return appendTransactionMessageInstructions(plan.instructions, dated);
  }
  const empty = setTransactionMessageFeePayer(payer, createTransactionMessage({ version }));
  const dated = setTransactionMessageLifetimeUsingBlockhash(lifetime, empty);
  const message = appendTransactionMessageInstructions(plan.instructions, dated);
  const tables = Object.entries(plan.tables ?? {}).map(([table, addresses]) => [
    address(table),
    addresses.map((entry) => address(entry)),
  ]);
  return compressTransactionMessageUsingAddressLookupTables(message, Object.fromEntries(tables));
}

/** Who built the transaction; each lays it out in another way. */
export type Layout = "x402" | "svm" | "phantom";

export interface LayoutOptions {
  readonly version?: TransactionVersion;
  /** What the seller asks for; without it, `svm` and `phantom` write a nonce of their own. */
  readonly memo?: string;
}

interface Budget {
  readonly units: number;
  /** Millionths of a lamport for each unit. */
  readonly price: number;
}

const BUDGETS: Readonly<Record<Layout, Budget>> = {
  // Simulates to find the units.
  x402: { units: 6_500, price: 1 },
  svm: { units: 20_000, price: 1 },
  // Leaves what the site has set.
  phantom: { units: 45_000, price: 1 },
};
/** As `@x402/svm` writes where the seller asks for no memo, so that no two payments are alike. */
const SOME_NONCE = "9f86d081884c7d659a2feaa0c55ad015";

/**
 * A payment as a client makes it: `x402` 1.2.0 (limit, price, transfer), `@x402/svm` 2.27 (and a memo), or
 * Phantom of 2026 (and guards around them). In version 1, what ComputeBudget would say is in the configuration.
 */
export function layOut(layout: Layout, payment: Payment, options: LayoutOptions = {}): Plan {
  const { version = 0, memo: text = layout === "x402" ? undefined : SOME_NONCE } = options;
  const { units, price } = BUDGETS[layout];
  const main = [transfer(payment), ...(text === undefined ? [] : [memo(text)])];
  const guarded = layout === "phantom" ? guard(main, payment) : main;
  const plan = { feePayer: payment.feePayer, version, signers: [payment.payer] };
  if (version !== 1) {
    return { ...plan, instructions: [unitLimit(units), unitPrice(price), ...guarded] };
  }
  const config = {
    computeUnitLimit: units,
    loadedAccountsDataSizeLimit: LOADED_ACCOUNTS_BYTES,
    priorityFeeLamports: BigInt(Math.ceil((units * price) / 1_000_000)),
  };
  return { ...plan, instructions: guarded, config };
}

/** Ample: the token programs are the largest accounts of a payment. */
const LOADED_ACCOUNTS_BYTES = 4_000_000;

/** Three before the transfer, about the payee's tokens, the payer's and a wallet; one behind the memo. */
function guard(main: readonly Instruction[], payment: Payment): readonly Instruction[] {
  const source = sourceOf(payment);
  return [
    tokenGuard(destinationOf(payment)),
    contentGuard(source),
    walletGuard(payment.feePayer, 655_360n),
    ...main,
    balanceGuard(source, 0n),
  ];
}
