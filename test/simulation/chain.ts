/**
 * A simulated chain: accounts with nonces, a mempool, blocks at intervals, transfers by signed
 * authorization, transactions with one payment or several, reorganizations. Its books are the truth that
 * the audit goes by. Blocks exist by the clock; only those with transactions in them are kept.
 */
import type { Random } from "./random.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** EIP-3009: whoever submits it moves the value, once, within the window (Unix seconds). */
export interface Authorization {
  /** `from/nonce`, lower case. */
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly value: bigint;
  readonly validAfter: number;
  readonly validBefore: number;
}

export type Action =
  | { readonly kind: "pay"; readonly authorization: Authorization }
  | { readonly kind: "cancel"; readonly authorization: Authorization }
  | { readonly kind: "move"; readonly from: string; readonly to: string; readonly value: bigint };

export interface ChainTransaction {
  readonly id: string;
  readonly account: string;
  readonly nonce: number;
  readonly fee: number;
  readonly actions: readonly Action[];
}

/** A transaction in a block; `worked` says it of each action. */
export interface Mined {
  readonly transaction: ChainTransaction;
  readonly block: number;
  readonly worked: readonly boolean[];
}

export interface ChainOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly blockMs: number;
  readonly firstNonce: number;
  readonly trace: (line: string) => void;
  /** How likely a block leaves a good payment behind that shares its transaction with others. */
  readonly leavingBehind: number;
}

/** What happened to an authorization on the chain, as of some block. */
export type Use = { readonly kind: "paid" | "cancelled"; readonly mined: Mined };

export class SimulatedChain {
  /** While true, nothing is left out of a block, and nothing is lost. */
  isCalm = false;
  /** Transactions that offer less stay in the mempool. */
  baseFee = 100;
  readonly blockMs: number;
  /** Sees what is broadcast, as everybody may. */
  onSeen: (transaction: ChainTransaction) => void = () => undefined;
  /** What each piece of signed bytes says. */
  readonly bytes = new Map<string, ChainTransaction>();
  readonly mempool = new Map<string, ChainTransaction>();
  /** In the order of the blocks. */
  mined: Mined[] = [];
  /** Authorizations whose effect, or failure, was in a block that a reorganization removed. */
  readonly undone = new Set<string>();
  /** Submissions about which some node has said something wrong. */
  readonly liedAbout = new Set<string>();
  /** Authorizations that some block has left behind. */
  readonly #behind = new Set<string>();
  /** Payments that a transaction in a block did not move since their payer had too little. */
  readonly uncovered: {
    readonly transaction: ChainTransaction;
    readonly authorization: Authorization;
  }[] = [];
  /** When each transaction that is not ours was first submitted, milliseconds. */
  readonly submittedMs = new Map<string, number>();
  readonly #balances = new Map<string, bigint>();
  readonly #options: ChainOptions;
  readonly #startMs: number;
  #isArmed = false;

  constructor(options: ChainOptions) {
    this.#options = options;
    this.blockMs = options.blockMs;
    this.#startMs = options.time.nowMs - 100 * options.blockMs;
  }

  endow(account: string, value: bigint): void {
    this.#balances.set(account, (this.#balances.get(account) ?? 0n) + value);
  }

  get head(): number {
    return Math.floor((this.#options.time.nowMs - this.#startMs) / this.blockMs);
  }

  /** Unix seconds. */
  timestamp(block: number): number {
    return Math.floor((this.#startMs + block * this.blockMs) / 1000);
  }

  /** Takes bytes from anybody. Throws what a node would say. */
  submit(transaction: ChainTransaction): void {
    const { id, account, nonce, fee } = transaction;
    if (this.mempool.has(id) || this.mined.some((each) => each.transaction.id === id)) return;
    if (nonce < this.accountNonce(account, this.head)) throw new Error("nonce too low");
    const rival = [...this.mempool.values()].find(
      (each) => each.account === account && each.nonce === nonce,
    );
    if (rival !== undefined) {
      if (fee < rival.fee * 1.125) throw new Error("replacement transaction underpriced");
      // Some node keeps the old one, so either may come first.
      if (this.isCalm || this.#options.random.chance(0.7)) this.mempool.delete(rival.id);
    }
    if (!this.submittedMs.has(id)) this.submittedMs.set(id, this.#options.time.nowMs);
    this.mempool.set(id, transaction);
    this.onSeen(transaction);
    this.#arm();
  }

  /** A node forgets a transaction that was not in a block yet. */
  lose(id: string): void {
    if (this.mempool.delete(id)) this.#options.trace(`chain: ${id} is lost`);
  }

  /** Removes blocks; most of their transactions wait to be in another. */
  reorganize(depth: number): void {
    const { random, trace } = this.#options;
    const kept = this.head - depth;
    const removed = this.mined.filter(({ block }) => block > kept);
    this.mined = this.mined.filter(({ block }) => block <= kept);
    for (const { transaction } of removed) {
      trace(`chain: reorganization removes ${transaction.id}`);
      for (const action of transaction.actions) {
        if (action.kind !== "move") this.undone.add(action.authorization.id);
      }
      if (random.chance(0.8)) this.mempool.set(transaction.id, transaction);
    }
    if (removed.length > 0) this.#arm();
  }

  minedAs(id: string, height: number): Mined | undefined {
    return this.mined.find(({ transaction, block }) => transaction.id === id && block <= height);
  }

  accountNonce(account: string, height: number): number {
    let used = 0;
    for (const { transaction, block } of this.mined) {
      if (transaction.account === account && block <= height) used += 1;
    }
    return this.#options.firstNonce + used;
  }

  get nowMs(): number {
    return this.#options.time.nowMs;
  }

  isUsed(id: string, height: number): boolean {
    return this.use({ id }, height) !== undefined;
  }

  use({ id }: Pick<Authorization, "id">, height: number): Use | undefined {
    for (const mined of this.mined) {
      if (mined.block > height) break;
      for (const [index, action] of mined.transaction.actions.entries()) {
        if (action.kind === "move" || action.authorization.id !== id) continue;
        if (mined.worked[index] !== true) continue;
        return { kind: action.kind === "pay" ? "paid" : "cancelled", mined };
      }
    }
    return undefined;
  }

  balance(account: string, height: number): bigint {
    let balance = this.#balances.get(account) ?? 0n;
    for (const { transaction, block, worked } of this.mined) {
      if (block > height) break;
      for (const [index, action] of transaction.actions.entries()) {
        if (worked[index] !== true || action.kind === "cancel") continue;
        const { from, to, value } = action.kind === "pay" ? action.authorization : action;
        if (from === account) balance -= value;
        if (to === account) balance += value;
      }
    }
    return balance;
  }

  /** Our next block holds what waits now. */
  #arm(): void {
    if (this.#isArmed || this.mempool.size === 0) return;
    this.#isArmed = true;
    const nextMs = this.#startMs + (this.head + 1) * this.blockMs;
    this.#options.time.schedule(nextMs - this.#options.time.nowMs, null, () => {
      this.#isArmed = false;
      this.#mine();
      this.#arm();
    });
  }

  #mine(): void {
    const { random, trace } = this.#options;
    const waiting = [...this.mempool.values()].map((each) => ({ each, order: random.next() }));
    waiting.sort((left, right) => left.each.nonce - right.each.nonce || left.order - right.order);
    for (const { each } of waiting) {
      const expected = this.accountNonce(each.account, this.head);
      if (each.nonce < expected) this.mempool.delete(each.id);
      if (each.nonce !== expected || each.fee < this.baseFee) continue;
      if (!this.isCalm && random.chance(0.15)) continue;
      this.mempool.delete(each.id);
      const worked = this.#execute(each);
      this.mined.push({ transaction: each, block: this.head, worked });
      trace(`chain: block ${this.head} has ${each.id} (${worked.join(" ")})`);
    }
  }

  #execute(transaction: ChainTransaction): readonly boolean[] {
    const { actions } = transaction;
    const here = new Set<string>();
    const spent = new Map<string, bigint>();
    return actions.map((action) => {
      if (action.kind === "move") {
        return this.#canSpend(action.from, action.value, spent);
      }
      const { authorization } = action;
      if (here.has(authorization.id) || this.use(authorization, this.head) !== undefined) {
        return false;
      }
      if (actions.length > 1 && this.#leavesBehind(authorization)) return false;
      if (action.kind === "pay") {
        const now = this.timestamp(this.head);
        const isInWindow = now > authorization.validAfter && now < authorization.validBefore;
        if (!isInWindow) return false;
        if (!this.#canSpend(authorization.from, authorization.value, spent)) {
          this.uncovered.push({ transaction, authorization });
          return false;
        }
      }
      here.add(authorization.id);
      return true;
    });
  }

  /** Once each. */
  #leavesBehind({ id }: Authorization): boolean {
    const { leavingBehind, random } = this.#options;
    if (this.isCalm || leavingBehind === 0 || this.#behind.has(id)) return false;
    const isBehind = random.chance(leavingBehind);
    if (isBehind) this.#behind.add(id);
    return isBehind;
  }

  #canSpend(from: string, value: bigint, spent: Map<string, bigint>): boolean {
    const already = spent.get(from) ?? 0n;
    if (this.balance(from, this.head) - already < value) return false;
    spent.set(from, already + value);
    return true;
  }
}
