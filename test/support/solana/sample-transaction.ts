/** Signed token transfers by the official library (kit), in every transaction version, for tests of the node. */
import {
  AccountRole,
  address,
  appendTransactionMessageInstructions,
  blockhash,
  compressTransactionMessageUsingAddressLookupTables,
  createTransactionMessage,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  pipe,
  setTransactionMessageConfig,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
  type AccountSignerMeta,
  type Address,
  type Base64EncodedWireTransaction,
  type Instruction,
  type KeyPairSigner,
  type Signature,
  type Transaction,
  type TransactionWithLifetime,
} from "@solana/kit";
import { USDC_DEVNET } from "./set-up.ts";
import type { SolanaNode } from "./solana-node.ts";
import { TOKEN_PROGRAM, u32, u64 } from "./token-layout.ts";

/** Blocks from now; the transaction does not carry it. */
const LAST_VALID_BLOCK_HEIGHT = 10_000n;
const USDC_DECIMALS = 6;
const TRANSFER_CHECKED = 12;
const SYSTEM_PROGRAM = address("11111111111111111111111111111111");
const SYSTEM_TRANSFER = 2;
const ADVANCE_NONCE_ACCOUNT = 4;
const RECENT_BLOCKHASHES = address("SysvarRecentB1ockHashes11111111111111111111");
/** A v1 message that names no limits has none to spend. */
const V1_CONFIG = {
  computeUnitLimit: 200_000,
  loadedAccountsDataSizeLimit: 1_000_000,
  priorityFeeLamports: 777n,
};

export interface SampleTransaction {
  readonly base64: Base64EncodedWireTransaction;
  readonly signature: Signature;
}

export interface SampleOptions {
  readonly node: SolanaNode;
  /** Pays the fee. */
  readonly payer: KeyPairSigner;
  readonly instructions: readonly Instruction[];
  readonly version?: "legacy" | 0 | 1;
  /** Default: the newest one. */
  readonly blockhash?: string;
  /** v0 only: a lookup table and what it holds. */
  readonly table?: { readonly address: Address; readonly addresses: readonly Address[] };
}

/** A signed transaction of these instructions. */
export async function sampleTransaction(options: SampleOptions): Promise<SampleTransaction> {
  const transaction = await signed(options);
  return {
    base64: getBase64EncodedWireTransaction(transaction),
    signature: getSignatureFromTransaction(transaction),
  };
}

function signed(options: SampleOptions): Promise<Transaction & TransactionWithLifetime> {
  const { node, payer, instructions, version = 0 } = options;
  const lifetime = {
    blockhash: blockhash(options.blockhash ?? node.blockhash),
    lastValidBlockHeight: LAST_VALID_BLOCK_HEIGHT,
  };
  // The library's types tell the versions apart too well for one pipe to make them all.
  if (version === "legacy") {
    const message = pipe(
      createTransactionMessage({ version }),
      (message) => setTransactionMessageFeePayerSigner(payer, message),
      (message) => setTransactionMessageLifetimeUsingBlockhash(lifetime, message),
      (message) => appendTransactionMessageInstructions(instructions, message),
    );
    return signTransactionMessageWithSigners(message);
  }
  if (version === 1) {
    const message = pipe(
      createTransactionMessage({ version }),
      (message) => setTransactionMessageConfig(V1_CONFIG, message),
      (message) => setTransactionMessageFeePayerSigner(payer, message),
      (message) => setTransactionMessageLifetimeUsingBlockhash(lifetime, message),
      (message) => appendTransactionMessageInstructions(instructions, message),
    );
    return signTransactionMessageWithSigners(message);
  }
  const message = pipe(
    createTransactionMessage({ version }),
    (message) => setTransactionMessageFeePayerSigner(payer, message),
    (message) => setTransactionMessageLifetimeUsingBlockhash(lifetime, message),
    (message) => appendTransactionMessageInstructions(instructions, message),
    (message) => compressTransactionMessageUsingAddressLookupTables(message, tablesOf(options)),
  );
  return signTransactionMessageWithSigners(message);
}

function tablesOf({ table }: SampleOptions): Record<Address, Address[]> {
  return table === undefined ? {} : { [table.address]: [...table.addresses] };
}

/** One USDC transfer between the associated token accounts of the two. */
export async function transferInstruction(
  node: SolanaNode,
  { from, to, amount }: { from: KeyPairSigner; to: string; amount: bigint },
): Promise<Instruction> {
  return transferChecked({
    source: await node.associatedTokenAccount(from.address, USDC_DEVNET),
    destination: await node.associatedTokenAccount(to, USDC_DEVNET),
    mint: USDC_DEVNET,
    authority: from,
    amount,
    decimals: USDC_DECIMALS,
  });
}

export interface TokenTransfer {
  readonly source: Address;
  readonly mint: Address;
  readonly destination: Address;
  readonly authority: KeyPairSigner;
  readonly amount: bigint;
  readonly decimals: number;
  /** Default: the Token program. */
  readonly program?: string;
}

export function transferChecked(transfer: TokenTransfer): Instruction {
  const { source, mint, destination, authority, amount, decimals } = transfer;
  return {
    programAddress: address(transfer.program ?? TOKEN_PROGRAM),
    accounts: [
      { address: source, role: AccountRole.WRITABLE },
      { address: mint, role: AccountRole.READONLY },
      { address: destination, role: AccountRole.WRITABLE },
      signerMeta(authority, AccountRole.READONLY_SIGNER),
    ],
    data: Buffer.concat([Buffer.from([TRANSFER_CHECKED]), u64(amount), Buffer.from([decimals])]),
  };
}

/** Lamports from one to the other. */
export function transferLamports(from: KeyPairSigner, to: Address, lamports: bigint): Instruction {
  return {
    programAddress: SYSTEM_PROGRAM,
    accounts: [
      signerMeta(from, AccountRole.WRITABLE_SIGNER),
      { address: to, role: AccountRole.WRITABLE },
    ],
    data: Buffer.concat([u32(SYSTEM_TRANSFER), u64(lamports)]),
  };
}

/** What a transaction begins with that lives on a durable nonce. */
export function advanceNonce(nonceAccount: Address, authority: KeyPairSigner): Instruction {
  return {
    programAddress: SYSTEM_PROGRAM,
    accounts: [
      { address: nonceAccount, role: AccountRole.WRITABLE },
      { address: RECENT_BLOCKHASHES, role: AccountRole.READONLY },
      signerMeta(authority, AccountRole.READONLY_SIGNER),
    ],
    data: u32(ADVANCE_NONCE_ACCOUNT),
  };
}

function signerMeta(
  signer: KeyPairSigner,
  role: AccountRole.READONLY_SIGNER | AccountRole.WRITABLE_SIGNER,
): AccountSignerMeta {
  return { address: signer.address, role, signer };
}
