/**
 * A mechanism before a chain that does what a test says. By default every payment is good, and bytes are
 * in a block as soon as they are sent. The transaction of account nonce 3 is called `0x3`, its first
 * replacement `0x3+1`.
 */
import {
  ChainError,
  type Checked,
  type Confirmation,
  type Look,
  type Mechanism,
  type SignedTransaction,
  type Submission,
} from "../../../../src/mechanism/mechanism.ts";
import { isEvmPayload, payerOf } from "../../../../src/x402/payment-key.ts";
import { ok, refuse, type Refusal } from "../../../../src/x402/result.ts";
import type { FacilitatorRequest } from "../../../../src/x402/x402.ts";

export const ACCOUNT = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
export const OTHER_ACCOUNT = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

/** A payment as the script sees it. */
interface Authorization {
  readonly nonce: string;
  readonly payer?: string;
}

interface Transaction extends SignedTransaction {
  readonly nonces: readonly string[];
}

/** Submissions of one account in the air at most. */
export const MAX_OPEN = 16;

export interface ScriptOptions {
  readonly accounts?: readonly string[];
  readonly maxTogether?: number;
  /** Calls that do something else. */
  readonly members?: Partial<Mechanism<Authorization>>;
}

export class ScriptedChain {
  /** Whether bytes are in a block as soon as they are sent; otherwise {@link mine} does it. */
  automines = true;
  /** Thrown by each broadcast, whose bytes then do not arrive. */
  broadcastError: Error | undefined;
  /** What each broadcast answers. */
  answer: "sent" | "included" = "sent";
  /** Thrown by each question of that name. */
  readonly errors = new Map<string, Error>();
  /** Payments (by nonce) that move no money: in a batch alone, and whatever they are in. */
  readonly failsTogether = new Set<string>();
  readonly fails = new Set<string>();
  /** Payments whose window is over. */
  readonly expired = new Set<string>();
  /** Payments that are in a block which does not count yet. */
  readonly tooNew = new Set<string>();
  /** Payments that a batch's simulation finds and leaves out. */
  readonly leftOut = new Set<string>();
  /** Payments that the chain's judgement refuses. */
  readonly refused = new Map<string, Refusal>();
  /** Accounts that cannot pay the fee. */
  readonly poor = new Set<string>();
  /** Payers (by address) whose signature is not proven: their code judges it. */
  readonly unproven = new Set<string>();
  /** Payers (by address) whose signature is proven, and who have code all the same. */
  readonly delegated = new Set<string>();
  /** Payments (by nonce) that a simulation of what would be sent refuses. */
  readonly rehearsalFails = new Set<string>();
  /** What a transaction burns that moves nothing at all. */
  revertedGas = 100_000n;
  /** What a transaction costs, of 18 decimals. */
  fee = { atomic: 1_000_000_000_000_000n, priorityAtomic: 100_000_000_000_000n };
  /** What each payment burns that a batch leaves behind. */
  leftBehindGas = 40_000n;
  /** Whether our fee cap allows a replacement. */
  allowsRaise = true;
  isFinal = false;
  /** Names of the calls that ask the chain, in order. */
  readonly calls: string[] = [];
  /** Transactions in the order in which they were sent, repeats included. */
  readonly sent: string[] = [];
  /** What was asked to be prepared, as payment nonces. */
  readonly prepared: (readonly string[])[] = [];
  readonly #held = new Map<string, Promise<void>>();
  readonly #pool = new Map<string, Transaction>();
  readonly #mined = new Map<string, Transaction>();
  /** By which transaction the money of a payment moved. */
  readonly #moved = new Map<string, string>();
  readonly #nextNonces = new Map<string, number>();
  readonly #bytes = new Map<string, Transaction>();

  /** That call is not answered before the promise is. */
  hold(name: string, until: Promise<void>): void {
    this.#held.set(name, until);
  }

  count(name: string): number {
    return this.calls.filter((call) => call === name).length;
  }

  /** Includes what is in the pool and whose turn it is. */
  mine(): void {
    for (let found = this.#nextMinable(); found !== undefined; found = this.#nextMinable()) {
      this.#pool.delete(found.transaction);
      this.#mined.set(found.transaction, found);
      this.#nextNonces.set(found.account, found.accountNonce + 1);
      for (const nonce of found.nonces) {
        const isLost =
          this.fails.has(nonce) || (found.nonces.length > 1 && this.failsTogether.has(nonce));
        if (!isLost && !this.expired.has(nonce) && !this.#moved.has(nonce)) {
          this.#moved.set(nonce, found.transaction);
        }
      }
    }
  }

  /** Takes a transaction out of its block, and those after it. */
  reorganize(transaction: string): void {
    const gone = this.#mined.get(transaction);
    if (gone === undefined) throw new Error("it is in no block");
    for (const each of this.#mined.values()) {
      if (each.account !== gone.account || each.accountNonce < gone.accountNonce) continue;
      this.#mined.delete(each.transaction);
      for (const [nonce, by] of this.#moved) if (by === each.transaction) this.#moved.delete(nonce);
    }
    this.#nextNonces.set(gone.account, gone.accountNonce);
  }

  /** Somebody else submits the authorization. */
  movedBy(nonce: string, transaction: string): void {
    this.#moved.set(nonce, transaction);
  }

  /** Somebody uses an account nonce with our key. */
  useNonce(account: string): void {
    this.#nextNonces.set(account, (this.#nextNonces.get(account) ?? 0) + 1);
  }

  movedIn(nonce: string): string | undefined {
    return this.#moved.get(nonce);
  }

  mechanism({ accounts = [ACCOUNT], maxTogether = 1, members }: ScriptOptions = {}): Mechanism {
    const asked = async (name: string): Promise<void> => {
      this.calls.push(name);
      const error = this.errors.get(name);
      if (error !== undefined) throw error;
      await this.#held.get(name);
    };
    const behaviour: Mechanism<Authorization> = {
      scheme: "exact",
      network: "base-sepolia",
      kind: { x402Version: 1, scheme: "exact", network: "base-sepolia" },
      accounts,
      maxTogether,
      rules: {
        isOrdered: true,
        maxOpen: MAX_OPEN,
        looksAtOnce: 8,
        firstLookMs: 50,
        maxLookMs: 500,
        attendedLookMs: 0,
        lateLookMs: 2_000,
        resendMs: 10_000,
        forgetMs: 3_600_000,
      },
      allow: () => undefined,
      accountFor: () => undefined,
      check: (request) => ok(this.#checked(request)),
      parse: (request) => ok(authorizationOf(request)),
      standing: async () => ({ head: 0, used: null }),
      inspect: async (checked) => {
        await asked("inspect");
        const refusal = this.refused.get(checked.authorization.nonce);
        if (refusal !== undefined) return refuse(refusal.code, refusal.detail);
        const runsCode = checked.runsCode || this.delegated.has(checked.payer);
        return ok({ ...checked, fault: null, runsCode });
      },
      prepare: async (payments, account) => {
        await asked("prepare");
        if (this.poor.has(account)) throw new ChainError("CHAIN_GAS", `${account} is poor`);
        const all = payments.map(({ authorization: { nonce } }) => nonce);
        this.prepared.push(all);
        const isLeftOut = (nonce: string): boolean => all.length > 1 && this.leftOut.has(nonce);
        const nonces = all.filter((nonce) => !isLeftOut(nonce));
        if (all.some((nonce) => this.rehearsalFails.has(nonce))) {
          return { draft: undefined, leftOut: [], refused: REHEARSAL };
        }
        const leftOut = all.flatMap((nonce, index) => (isLeftOut(nonce) ? [index] : []));
        const sign = (nonce: number): SignedTransaction => this.#sign(account, nonce, nonces, 0);
        return { draft: nonces.length === 0 ? undefined : { account, sign }, leftOut };
      },
      raise: async ({ variants }) => {
        await asked("raise");
        const [first] = variants;
        const bytes = first && this.#bytes.get(first.raw);
        if (bytes === undefined || !this.allowsRaise) return undefined;
        return this.#sign(bytes.account, bytes.accountNonce, bytes.nonces, variants.length);
      },
      broadcast: async ({ raw, transaction }) => {
        this.calls.push("broadcast");
        this.sent.push(transaction);
        if (this.broadcastError !== undefined) throw this.broadcastError;
        const bytes = this.#bytes.get(raw);
        if (bytes === undefined) throw new Error("bytes that nobody signed");
        this.#pool.set(transaction, bytes);
        if (this.automines) this.mine();
        return this.answer;
      },
      look: async (submission) => {
        await asked("look");
        return this.#look(submission);
      },
      reconcile: async ({ nonce }) => {
        await asked("reconcile");
        if (this.tooNew.has(nonce)) return { kind: "unknown", detail: "not deep enough" };
        const said = this.#judge(nonce, undefined);
        return said.kind === "unknown" ? { ...said, isUnused: true } : said;
      },
      accountNonce: async (account) => {
        await asked("accountNonce");
        return this.#nextNonces.get(account) ?? 0;
      },
      balance: async (address) => ({
        address,
        balanceAtomic: 1n,
        decimals: 18,
        settlementAtomic: 1n,
      }),
      probe: async () => [],
      close: async () => undefined,
      ...members,
    };
    return behaviour;
  }

  #checked(request: FacilitatorRequest): Checked<Authorization> {
    const payer = payerOf(request.paymentPayload);
    const proven = !this.unproven.has(payer);
    return {
      authorization: authorizationOf(request),
      payer,
      proven,
      runsCode: !proven,
      fault: null,
    };
  }

  #sign(
    account: string,
    accountNonce: number,
    nonces: readonly string[],
    replacement: number,
  ): SignedTransaction {
    const name =
      account === ACCOUNT ? `0x${accountNonce}` : `0x${account.slice(2, 6)}/${accountNonce}`;
    const transaction = replacement === 0 ? name : `${name}+${replacement}`;
    const raw = `raw ${transaction} ${nonces.join()}`;
    const signed = { transaction, raw, account, accountNonce };
    this.#bytes.set(raw, { ...signed, nonces });
    return signed;
  }

  #nextMinable(): Transaction | undefined {
    const minable = [...this.#pool.values()].filter(
      ({ account, accountNonce }) => accountNonce === (this.#nextNonces.get(account) ?? 0),
    );
    return minable.at(-1);
  }

  #look({ variants, authorizations }: Submission<Authorization>): Look {
    const included = variants.find(({ transaction }) => this.#mined.has(transaction));
    const [first] = variants;
    const used = first && first.accountNonce < (this.#nextNonces.get(first.account) ?? 0);
    const isSpent = included !== undefined || used === true;
    const payments = authorizations.map(({ nonce }) => this.#judge(nonce, isSpent));
    if (included === undefined) return { payments, included: null, isSpent };
    const { transaction } = included;
    const isLeft = ({ nonce }: Authorization): boolean => this.#moved.get(nonce) === undefined;
    const isReverted = authorizations.every(isLeft);
    const indices = [...authorizations.keys()].filter((index) => isLeft(authorizations[index]!));
    const leftBehind = { indices, gas: BigInt(indices.length) * this.leftBehindGas };
    return {
      payments: payments.map((said, index) => {
        const hasCode = this.delegated.has(authorizations[index]?.payer ?? "");
        return said.kind === "failed" && isReverted && hasCode ? { ...said, hasCode: true } : said;
      }),
      included: {
        transaction,
        confirmations: 1,
        isFinal: this.isFinal,
        fee: this.fee,
        ...(isReverted ? { revertedGas: this.revertedGas } : { leftBehind }),
      },
      isSpent,
    };
  }

  #judge(nonce: string, isSpent: boolean | undefined): Confirmation {
    const transaction = this.#moved.get(nonce);
    if (transaction !== undefined) return { kind: "confirmed", transaction };
    if (this.expired.has(nonce)) return failed("expired unused", false);
    if (isSpent === true) return failed("reverted", true);
    return { kind: "unknown", detail: "not in a block yet" };
  }
}

function failed(detail: string, retriable: boolean): Confirmation {
  return { kind: "failed", refusal: { code: "invalid_transaction_state", detail }, retriable };
}

const REHEARSAL: Refusal = { code: "invalid_transaction_state", detail: "it would fail" };

function authorizationOf({ paymentPayload }: FacilitatorRequest): Authorization {
  const { payload } = paymentPayload;
  const nonce = isEvmPayload(payload) ? payload.authorization.nonce : "";
  return { nonce, payer: payerOf(paymentPayload) };
}
