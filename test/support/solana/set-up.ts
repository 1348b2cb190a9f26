/**
 * Puts a cluster into the state that a test wants, without transactions: lamports, mints, token accounts,
 * lookup tables, programs. All of it holds in every slot at once.
 */
import { generateKeyPairSync } from "node:crypto";
import { address, getAddressEncoder, getProgramDerivedAddress, type Address } from "@solana/kit";
import { fromBase58, toBase58 } from "./base58.ts";
import type { Cluster } from "./cluster.ts";
import { lighthouseStandIn } from "./lighthouse-stand-in.ts";
import type { StoredAccount } from "./runtime.ts";
import {
  accountExtensionsFor,
  encodeMint,
  encodeTokenAccount,
  EXTENSION,
  readMint,
  readTokenAccount,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  transferFeeConfig,
  transferHook,
  u32,
  u64,
  type Extension,
  type Mint,
  type TokenAccount,
} from "./token-layout.ts";

export const USDC_MAINNET = address("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v");
export const USDC_DEVNET = address("4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU");
/** Where Lighthouse's assertions live. */
export const LIGHTHOUSE_PROGRAM = address("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95");

const SYSTEM_PROGRAM = "11111111111111111111111111111111";
const ASSOCIATED_TOKEN_PROGRAM = address("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL");
const LOOKUP_TABLE_PROGRAM = "AddressLookupTab1e1111111111111111111111111";
const LOOKUP_TABLE = 1;
/** A table that is in use was never deactivated. */
const NOT_DEACTIVATED = 2n ** 64n - 1n;
/** Long ago: addresses can be used from the slot after the one that added them. */
const EXTENDED_SLOT = 1n;
/** Atomic units that a transfer fee takes at most, where the test names no other. */
const MAX_TRANSFER_FEE = 2n ** 64n - 1n;

export type TokenProgramName = "token" | "token-2022";

export interface MintExtensions {
  /** Withheld from each transfer; 0 is a fee that is configured and takes nothing. */
  readonly transferFee?: { readonly basisPoints: number; readonly maximumFee?: bigint };
  /** The hook's program; null: configured and not set. */
  readonly transferHook?: string | null;
  readonly nonTransferable?: boolean;
  readonly permanentDelegate?: string;
  /** Any other, by its number and bytes. */
  readonly other?: readonly Extension[];
}

export interface MintOptions {
  /** Default: a fresh one. */
  readonly address?: string;
  readonly decimals: number;
  readonly program: TokenProgramName;
  /** Token-2022 only. */
  readonly extensions?: MintExtensions;
}

export interface TokenFunding {
  readonly mint: string;
  readonly owner: string;
  /** Atomic units; 0 makes an empty account. */
  readonly amount: bigint;
}

export class SetUp {
  /** May mint and freeze every token that is made here. 64 bytes: seed and public key. */
  readonly mintAuthority: { readonly address: Address; readonly secretKey: Uint8Array };
  readonly #cluster: Cluster;

  constructor(cluster: Cluster, mintAuthority?: SetUp["mintAuthority"]) {
    this.#cluster = cluster;
    this.mintAuthority = mintAuthority ?? freshKey();
    if (mintAuthority !== undefined) return;
    for (const usdc of [USDC_MAINNET, USDC_DEVNET]) {
      this.createMint({ address: usdc, decimals: 6, program: "token" });
    }
  }

  /** The account as of the newest slot. */
  account(at: string): StoredAccount | null {
    return this.#cluster.runtime.account(at);
  }

  setAccount(at: string, account: StoredAccount): void {
    this.#cluster.setAccount(at, account);
  }

  /** Adds lamports. */
  fundSol(at: string, lamports: bigint): void {
    this.setLamports(at, this.lamportsOf(at) + lamports);
  }

  setLamports(at: string, lamports: bigint): void {
    const none = { data: new Uint8Array(), owner: SYSTEM_PROGRAM, executable: false };
    this.setAccount(at, { ...(this.account(at) ?? none), lamports });
  }

  lamportsOf(at: string): bigint {
    return this.account(at)?.lamports ?? 0n;
  }

  createMint(options: MintOptions): Address {
    const at = options.address ?? freshKey().address;
    const program = options.program === "token" ? TOKEN_PROGRAM : TOKEN_2022_PROGRAM;
    const extensions = extensionsOf(options.extensions ?? {}, this.mintAuthority.address);
    if (extensions.length > 0 && program === TOKEN_PROGRAM) {
      throw new Error("only a token-2022 mint has extensions");
    }
    const authority = this.mintAuthority.address;
    const { decimals } = options;
    const base = { mintAuthority: authority, freezeAuthority: authority, supply: 0n };
    this.#put(at, program, encodeMint({ ...base, decimals, extensions }));
    return address(at);
  }

  /** Adds tokens to the owner's associated token account, which is made where it is missing. */
  async fundToken({ mint, owner, amount }: TokenFunding): Promise<Address> {
    const { program, mint: minted } = this.#mint(mint);
    const at = await this.associatedTokenAccount(owner, mint);
    const existing = readTokenAccount(this.account(at));
    const account: TokenAccount = existing ?? {
      mint,
      owner,
      amount: 0n,
      delegate: null,
      delegatedAmount: 0n,
      state: "initialized",
      nativeReserve: null,
      closeAuthority: null,
      extensions: accountExtensionsFor(minted, program),
    };
    const funded = { ...account, amount: account.amount + amount };
    this.#put(at, program, encodeTokenAccount(funded));
    this.#put(mint, program, encodeMint({ ...minted, supply: minted.supply + amount }));
    return at;
  }

  /** Where the owner's tokens of this mint belong; the program is the mint's own. */
  async associatedTokenAccount(
    owner: string,
    mint: string,
    program?: TokenProgramName,
  ): Promise<Address> {
    const named = program === "token-2022" ? TOKEN_2022_PROGRAM : TOKEN_PROGRAM;
    const tokenProgram = program === undefined ? this.#mint(mint).program : named;
    const encoder = getAddressEncoder();
    const [at] = await getProgramDerivedAddress({
      programAddress: ASSOCIATED_TOKEN_PROGRAM,
      seeds: [owner, tokenProgram, mint].map((each) => encoder.encode(address(each))),
    });
    return at;
  }

  /** Atomic units in the owner's associated token account as of the newest slot; 0 without one. */
  async tokenBalanceOf(owner: string, mint: string): Promise<bigint> {
    const at = await this.associatedTokenAccount(owner, mint);
    return readTokenAccount(this.account(at))?.amount ?? 0n;
  }

  /** Lets the delegate spend so much of a token account. */
  approve(source: string, delegate: string, amount: bigint): void {
    this.#change(source, { delegate, delegatedAmount: amount });
  }

  /** Freezes a token account, or thaws it. */
  freeze(source: string, isFrozen = true): void {
    this.#change(source, { state: isFrozen ? "frozen" : "initialized" });
  }

  /** A lookup table with these addresses, ready for use; its address. */
  lookupTable(addresses: readonly string[]): Address {
    const { address: at } = freshKey();
    const authority = fromBase58(this.mintAuthority.address);
    const data = Buffer.concat([
      u32(LOOKUP_TABLE),
      u64(NOT_DEACTIVATED),
      u64(EXTENDED_SLOT),
      Buffer.from([0, 1]),
      authority,
      Buffer.alloc(2),
      ...addresses.map(fromBase58),
    ]);
    this.#put(at, LOOKUP_TABLE_PROGRAM, data);
    return at;
  }

  loadProgram(at: string, elf: Uint8Array): void {
    this.#cluster.runtime.loadProgram(at, elf);
  }

  /** A program at Lighthouse's address that judges assertions of lamports, and those of the clock. */
  loadLighthouseStandIn(): void {
    this.loadProgram(LIGHTHOUSE_PROGRAM, lighthouseStandIn());
  }

  #mint(at: string): { readonly program: string; readonly mint: Mint } {
    const account = this.account(at);
    const mint = readMint(account);
    if (account === null || mint === null) throw new Error(`no mint at ${at}: createMint first`);
    return { program: account.owner, mint };
  }

  #change(at: string, change: Partial<TokenAccount>): void {
    const account = this.account(at);
    const token = readTokenAccount(account);
    if (account === null || token === null) throw new Error(`no token account at ${at}`);
    this.#put(at, account.owner, encodeTokenAccount({ ...token, ...change }));
  }

  #put(at: string, owner: string, data: Uint8Array): void {
    const least = this.#cluster.runtime.rentExemption(BigInt(data.length));
    const has = this.lamportsOf(at);
    const lamports = has > least ? has : least;
    this.setAccount(at, { lamports, data, owner, executable: false });
  }
}

function extensionsOf(options: MintExtensions, authority: string): Extension[] {
  const { transferFee, nonTransferable = false, permanentDelegate, other = [] } = options;
  const extensions = [...other];
  if (transferFee !== undefined) {
    const maximumFee = transferFee.maximumFee ?? MAX_TRANSFER_FEE;
    const { basisPoints } = transferFee;
    extensions.push(transferFeeConfig(authority, { basisPoints, maximumFee }));
  }
  if (options.transferHook !== undefined) {
    extensions.push(transferHook(authority, options.transferHook));
  }
  if (nonTransferable) extensions.push({ type: EXTENSION.nonTransferable, data: new Uint8Array() });
  if (permanentDelegate !== undefined) {
    extensions.push({ type: EXTENSION.permanentDelegate, data: fromBase58(permanentDelegate) });
  }
  return extensions;
}

function freshKey(): { readonly address: Address; readonly secretKey: Uint8Array } {
  const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const publicKey = Buffer.from(x, "base64url");
  const secretKey = new Uint8Array([...Buffer.from(d, "base64url"), ...publicKey]);
  return { address: address(toBase58(new Uint8Array(publicKey))), secretKey };
}
