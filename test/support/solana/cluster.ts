/**
 * A cluster of one validator: slots with their blockhashes, a queue of transactions that the next slot
 * runs, and what became of each of them. Time passes by `tick` alone.
 *
 * The rules are Agave's: a blockhash is good for 150 blocks to be processed and for 144 to be simulated
 * (a transaction still has to travel), a transaction is processed once by its message and not by its
 * signature, and a failed one that could pay is in its block and paid its fee.
 */
import { createHash, randomBytes } from "node:crypto";
import { AccountJournal } from "./account-journal.ts";
import { toBase58 } from "./base58.ts";
import { isUsableNonce } from "./durable-nonce.ts";
import { feeOf } from "./fees.ts";
import { Runtime, type Outcome, type Simulated, type StoredAccount } from "./runtime.ts";
import { tokenBalances, type TokenBalance } from "./token-balances.ts";
import { isRefusedBeforeSimulation, type TransactionError } from "./transaction-error.ts";
import { isSigned, messageKey, signatureOf, type WireTransaction } from "./wire-transaction.ts";

/** Blocks that a blockhash stays good for. */
export const MAX_PROCESSING_AGE = 150;
/** Blocks less that a simulation grants it. */
const FORWARDING_DELAY = 6;
/** Blockhashes kept. */
const MAX_BLOCKHASHES = 300;
/** Blockhashes that programs see in the SlotHashes sysvar. */
const SYSVAR_HASHES = 64;
/** Slots below the newest finalized one in which a lagging node may still be reading. */
const READABLE_SLOTS = 512;
/** Slot numbers start here, so that a slot is never taken for a count; */
const FIRST_SLOT = 1_000;
/** and so many slots had no block, so that it is never taken for a block height. */
const SKIPPED_SLOTS = 100;
/** Transactions remembered and queued at most. */
const MAX_LANDED = 100_000;
const MAX_QUEUED = 20_000;

export interface ClusterOptions {
  /** Slots until a block is confirmed; default 1. */
  readonly confirmedAfterSlots?: number;
  /** Slots until a block is final; default 32. */
  readonly finalizedAfterSlots?: number;
  /** From which blockhashes are made; default random, so that no two clusters share one. */
  readonly seed?: string;
  /** Milliseconds since the epoch, for block times. */
  readonly now: () => number;
}

export interface Block {
  readonly slot: number;
  readonly blockhash: string;
  readonly height: number;
  readonly unixSeconds: number;
}

/** A transaction that is in a block. */
export interface Landed {
  readonly signature: string;
  readonly slot: number;
  readonly unixSeconds: number;
  readonly wire: WireTransaction;
  readonly outcome: Outcome;
  readonly keys: readonly string[];
  readonly loaded: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
  /** Lamports. */
  readonly fee: bigint;
  readonly pre: Balances;
  readonly post: Balances;
}

interface Balances {
  readonly lamports: readonly bigint[];
  readonly tokens: readonly TokenBalance[];
}

export class Cluster {
  readonly runtime = new Runtime();
  readonly confirmedAfterSlots: number;
  readonly finalizedAfterSlots: number;
  readonly #now: () => number;
  readonly #seed: string;
  readonly #journal = new AccountJournal();
  /** Oldest first; the last one is the newest block. */
  readonly #blocks: Block[] = [];
  readonly #slotOfHash = new Map<string, number>();
  readonly #queue = new Map<string, WireTransaction>();
  /** By signature, oldest first. */
  readonly #landed = new Map<string, Landed>();
  /** Slots of processed messages, oldest first. */
  readonly #processed = new Map<string, number>();
  readonly #listeners = new Set<(block: Block) => void>();

  constructor(options: ClusterOptions) {
    this.confirmedAfterSlots = options.confirmedAfterSlots ?? 1;
    this.finalizedAfterSlots = options.finalizedAfterSlots ?? 32;
    this.#now = options.now;
    this.#seed = options.seed ?? randomBytes(16).toString("hex");
    const past = FIRST_SLOT - this.finalizedAfterSlots - SYSVAR_HASHES;
    for (let slot = past; slot <= FIRST_SLOT; slot += 1) this.#addBlock(slot);
    this.#enterSlot(FIRST_SLOT + 1);
  }

  /** The newest block. */
  get tip(): Block {
    return this.blockAt(Number.POSITIVE_INFINITY);
  }

  /** The newest block that is not above this slot, or the oldest one that is remembered. */
  blockAt(slot: number): Block {
    const block = this.#blocks.findLast((each) => each.slot <= slot) ?? this.#blocks[0];
    if (block === undefined) throw new Error("a cluster without blocks");
    return block;
  }

  /** Whether the blockhash can be used as the bank of `slot` sees it. */
  isUsable(blockhash: string, slot: number, age = MAX_PROCESSING_AGE): boolean {
    const born = this.#slotOfHash.get(blockhash);
    return born !== undefined && born <= slot && slot - born <= age;
  }

  /** Takes a transaction for the next slot. One that is no good is dropped there, without a word. */
  submit(wire: WireTransaction): void {
    if (this.#queue.size < MAX_QUEUED) this.#queue.set(signatureOf(wire), wire);
  }

  /** How many transactions wait for the next slot. */
  get queued(): number {
    return this.#queue.size;
  }

  /** Makes so many blocks. */
  tick(count = 1): void {
    for (let made = 0; made < count; made += 1) this.#makeBlock();
  }

  /**
   * As the bank of `slot` sees it, except that accounts are the newest ones. What is wrong with the
   * transaction itself comes before what is wrong with its age, as in a node.
   */
  simulate(wire: WireTransaction, slot: number): Simulated {
    const outcome = this.runtime.simulate(wire);
    if (outcome.err !== null && isRefusedBeforeSimulation(outcome.err)) return outcome;
    const refused = this.#refusal(wire, slot, MAX_PROCESSING_AGE - FORWARDING_DELAY);
    return refused === null ? outcome : refusedOutcome(refused);
  }

  /** What became of a transaction, as far as blocks up to `slot` tell. */
  landed(signature: string, slot: number): Landed | undefined {
    const landed = this.#landed.get(signature);
    return landed !== undefined && landed.slot <= slot ? landed : undefined;
  }

  /** Newest first. */
  landedFor(address: string, slot: number): Landed[] {
    const all = [...this.#landed.values()];
    return all.filter((each) => each.slot <= slot && each.keys.includes(address)).toReversed();
  }

  /** The account as of that slot. */
  account(address: string, slot: number): StoredAccount | null {
    const past = this.#journal.at(address, slot);
    return past === undefined ? this.runtime.account(address) : past;
  }

  /** Puts an account in place, in every slot at once. */
  setAccount(address: string, account: StoredAccount): void {
    this.runtime.setAccount(address, account);
    this.#journal.forget(address);
  }

  /** Called after each block, until the returned function is. */
  onBlock(listener: (block: Block) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #makeBlock(): void {
    const slot = this.tip.slot + 1;
    const queued = [...this.#queue.values()];
    this.#queue.clear();
    for (const wire of queued) this.#run(wire, slot);
    const block = this.#addBlock(slot);
    this.#enterSlot(slot + 1);
    this.#forgetOld();
    for (const listener of this.#listeners) listener(block);
  }

  /** A slot's programs see the blocks before it. */
  #enterSlot(slot: number): void {
    const unixSeconds = Math.floor(this.#now() / 1000);
    this.runtime.enterSlot(slot, unixSeconds, this.#blocks.slice(-SYSVAR_HASHES).toReversed());
  }

  #addBlock(slot: number): Block {
    const digest = createHash("sha256").update(`${this.#seed} ${slot}`).digest();
    const blockhash = toBase58(digest);
    const unixSeconds = Math.floor(this.#now() / 1000);
    const block = { slot, blockhash, height: slot - SKIPPED_SLOTS, unixSeconds };
    this.#blocks.push(block);
    this.#slotOfHash.set(blockhash, slot);
    if (this.#blocks.length > MAX_BLOCKHASHES) {
      const oldest = this.#blocks.shift();
      if (oldest !== undefined) this.#slotOfHash.delete(oldest.blockhash);
    }
    return block;
  }

  #run(wire: WireTransaction, slot: number): void {
    if (wire.hasTrailingBytes || !isSigned(wire)) return;
    // While a block is made, the newest blockhash is its parent's.
    if (this.#refusal(wire, slot - 1, MAX_PROCESSING_AGE) !== null) return;
    const { keys, writable, loaded } = this.runtime.resolve(wire);
    const before = keys.map((key) => this.runtime.account(key));
    const outcome = this.runtime.execute(wire);
    if (outcome.err !== null && !outcome.hasRun) return;
    const after = keys.map((key) => this.runtime.account(key));
    const horizon = slot - this.finalizedAfterSlots - READABLE_SLOTS;
    for (const key of writable) {
      const index = keys.indexOf(key);
      const change = { before: before[index] ?? null, after: after[index] ?? null };
      this.#journal.record(key, { slot, horizon, ...change });
    }
    const signature = signatureOf(wire);
    this.#processed.set(messageKey(wire), slot);
    this.#landed.set(signature, {
      signature,
      slot,
      unixSeconds: this.tip.unixSeconds,
      wire,
      outcome,
      keys,
      loaded,
      fee: feeOf(wire),
      pre: this.#balances(keys, before),
      post: this.#balances(keys, after),
    });
  }

  /** Why the bank of `slot` would not even run it. */
  #refusal(wire: WireTransaction, slot: number, age: number): TransactionError | null {
    if (!this.isUsable(wire.blockhash, slot, age)) {
      if (!isUsableNonce(wire, (address) => this.runtime.account(address))) {
        return "BlockhashNotFound";
      }
    }
    const processed = this.#processed.get(messageKey(wire));
    return processed !== undefined && processed <= slot ? "AlreadyProcessed" : null;
  }

  #balances(keys: readonly string[], accounts: readonly (StoredAccount | null)[]): Balances {
    return {
      lamports: accounts.map((account) => account?.lamports ?? 0n),
      tokens: tokenBalances(keys, accounts, (mint) => this.runtime.account(mint)),
    };
  }

  #forgetOld(): void {
    for (const map of [this.#landed, this.#processed]) {
      for (const key of map.keys()) {
        if (map.size <= MAX_LANDED) break;
        map.delete(key);
      }
    }
  }
}

function refusedOutcome(err: TransactionError): Simulated {
  const nothing = { logs: [], unitsConsumed: 0, returnData: null, innerInstructions: [] };
  return { ...nothing, err, hasRun: false, after: new Map() };
}
