/**
 * The mechanism of the simulated chain, as one life sees it: every question and every broadcast crosses a
 * boundary, reads may be stale, and a node may forget what it took.
 */
import {
  ChainError,
  type Checked,
  type Confirmation,
  type Look,
  type Mechanism,
  type Preparation,
  type Inspected,
  type PurseReader,
  type Question,
  type SignedTransaction,
  type Submission,
  type WalletBalance,
} from "../../src/mechanism/mechanism.ts";
import { isEvmPayload, payerOf } from "../../src/x402/payment-key.ts";
import { ok, refuse, type Refusal, type Result } from "../../src/x402/result.ts";
import type { FacilitatorRequest, SupportedKind } from "../../src/x402/x402.ts";
import type { Authorization, ChainTransaction, SimulatedChain } from "./chain.ts";
import type { Boundary } from "./faults.ts";
import { signatureOf } from "./payments.ts";
import type { Random } from "./random.ts";
import type { Life } from "./virtual-time.ts";

/** How far our chain's nodes can be trusted. */
export interface NodeFaults {
  /** Blocks that a read may be behind, at most. */
  staleBlocks: number;
  /** How likely a node forgets a transaction as soon as it has taken it. */
  losing: number;
  /** How likely one look says of a payment in no block, by mistake, that it failed. */
  lying: number;
}

export interface SimulatedMechanismOptions {
  readonly chain: SimulatedChain;
  readonly boundary: Boundary;
  readonly life: Life;
  readonly random: Random;
  readonly accounts: readonly string[];
  readonly nodeFaults: NodeFaults;
  /** Blocks that must hold a transaction before it is believed. */
  readonly confirmations: number;
  readonly maxTogether: number;
}

/** Blocks after which no reorganization happens. */
export const FINAL_BLOCKS = 12;
/** Longest way to a node, milliseconds. */
const NODE_MS = 60;
/** Above this our fees do not go. */
const FEE_CAP = 100_000;

export class SimulatedMechanism implements Mechanism<Authorization> {
  readonly scheme = "exact";
  readonly network = "base-sepolia";
  readonly kind: SupportedKind = { x402Version: 1, scheme: "exact", network: "base-sepolia" };
  readonly accounts: readonly string[];
  readonly maxTogether: number;
  readonly rules = {
    isOrdered: true,
    maxOpen: 16,
    looksAtOnce: 8,
    firstLookMs: 50,
    maxLookMs: 500,
    attendedLookMs: 0,
    lateLookMs: 2_000,
    resendMs: 10_000,
    forgetMs: 3_600_000,
  };
  readonly purses: PurseReader<Authorization> = {
    read: ({ authorization: { from } }, nonces, signal) =>
      this.#ask("read", signal, (height) => {
        const { chain } = this.#options;
        const executed = nonces.map((nonce) => chain.isUsed(`${from}/${nonce}`, height));
        return { balanceAtomic: chain.balance(from, height), askedMs: chain.nowMs, executed };
      }),
  };
  readonly #options: SimulatedMechanismOptions;

  constructor(options: SimulatedMechanismOptions) {
    this.#options = options;
    this.accounts = options.accounts;
    this.maxTogether = options.maxTogether;
  }

  allow(): void {}

  parse(request: FacilitatorRequest): Result<Authorization, Refusal> {
    const { payload } = request.paymentPayload;
    if (!isEvmPayload(payload)) return refuse("invalid_payload", "no authorization");
    const { from, to, value, validAfter, validBefore, nonce } = payload.authorization;
    return ok({
      id: `${from}/${nonce}`.toLowerCase(),
      from: from.toLowerCase(),
      to: to.toLowerCase(),
      value: BigInt(value),
      validAfter: Number(validAfter),
      validBefore: Number(validBefore),
    });
  }

  check(request: FacilitatorRequest, now: number): Result<Checked<Authorization>, Refusal> {
    const parsed = this.parse(request);
    if (!parsed.ok) return parsed;
    const { payload } = request.paymentPayload;
    const isSigned = isEvmPayload(payload) && payload.signature === signatureOf(payload);
    if (!isSigned) return refuse("invalid_exact_evm_payload_signature", "not signed by the payer");
    const { value: authorization } = parsed;
    const payer = payerOf(request.paymentPayload);
    return ok({
      authorization,
      payer,
      proven: true,
      runsCode: false,
      fault: faultOf(authorization, request, now),
    });
  }

  inspect(
    checked: Checked<Authorization>,
    signal: AbortSignal,
  ): Promise<Result<Inspected<Authorization>, Refusal>> {
    const { authorization } = checked;
    const askedMs = this.#options.chain.nowMs;
    return this.#ask("inspect", signal, (height) => {
      const { chain } = this.#options;
      if (chain.use(authorization, height) !== undefined) {
        return refuse("invalid_transaction_state", "the authorization is used");
      }
      const balanceAtomic = chain.balance(authorization.from, height);
      if (balanceAtomic < authorization.value) {
        return refuse("insufficient_funds", "the payer's balance is too low");
      }
      return ok({ ...checked, fault: null, purse: { balanceAtomic, askedMs } });
    });
  }

  accountFor(): undefined {
    return undefined;
  }

  prepare(
    payments: readonly Inspected<Authorization>[],
    account: string,
    signal: AbortSignal,
  ): Promise<Preparation> {
    return this.#ask("prepare", signal, (height) => {
      const { chain } = this.#options;
      const fee = Math.ceil(chain.baseFee * 1.2);
      const spent = new Map<string, bigint>();
      const taken: Authorization[] = [];
      const leftOut: number[] = [];
      for (const [index, { authorization }] of payments.entries()) {
        const { from, value } = authorization;
        const total = (spent.get(from) ?? 0n) + value;
        const isSound =
          chain.use(authorization, height) === undefined && chain.balance(from, height) >= total;
        if (payments.length > 1 && !isSound) leftOut.push(index);
        else {
          spent.set(from, total);
          taken.push(authorization);
        }
      }
      if (taken.length === 0) return { draft: undefined, leftOut };
      const sign = (accountNonce: number): SignedTransaction =>
        signTransaction(chain, { account, accountNonce, fee, authorizations: taken });
      return { draft: { account, sign }, leftOut };
    });
  }

  raise(
    { variants, authorizations }: Submission<Authorization>,
    signal: AbortSignal,
  ): Promise<SignedTransaction | undefined> {
    return this.#ask("raise", signal, () => {
      const { chain } = this.#options;
      const highest = Math.max(...variants.map(({ raw }) => readTransaction(chain, raw).fee));
      const [first] = variants;
      const wanted = Math.ceil(chain.baseFee * 1.2);
      const fee = Math.max(Math.ceil(highest * 1.126), wanted);
      if (first === undefined || fee > FEE_CAP) return undefined;
      const { account, accountNonce } = first;
      return signTransaction(chain, { account, accountNonce, fee, authorizations });
    });
  }

  async broadcast(signed: SignedTransaction, signal: AbortSignal): Promise<"sent" | "included"> {
    const { chain, random, nodeFaults } = this.#options;
    return this.#ask(
      "broadcast",
      signal,
      (): "sent" | "included" => {
        if (chain.minedAs(signed.transaction, chain.head) !== undefined) return "included";
        try {
          chain.submit(readTransaction(chain, signed.raw));
        } catch (cause) {
          const reason = cause instanceof Error ? cause.message : "";
          throw new ChainError("CHAIN_ANSWER", reason);
        }
        if (random.chance(nodeFaults.losing)) chain.lose(signed.transaction);
        return "sent";
      },
      true,
    );
  }

  look(submission: Submission<Authorization>, signal: AbortSignal): Promise<Look> {
    return this.#ask("look", signal, (height) => this.#look(submission, height));
  }

  /** Nothing is settled elsewhere here. */
  standing(): Promise<never> {
    return Promise.reject(new Error("not asked"));
  }

  reconcile(
    authorization: Authorization,
    _question: Question,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    return this.#ask("reconcile", signal, (height) => this.#judge(authorization, height));
  }

  accountNonce(account: string, signal: AbortSignal): Promise<number> {
    return this.#ask("accountNonce", signal, (height) => {
      const { chain } = this.#options;
      const mined = chain.accountNonce(account, height);
      const waiting = [...chain.mempool.values()].filter(
        (each) => each.account === account && each.nonce >= mined,
      );
      return Math.max(mined, ...waiting.map(({ nonce }) => nonce + 1));
    });
  }

  balance(account: string, signal: AbortSignal): Promise<WalletBalance> {
    return this.#ask("balance", signal, () => ({
      address: account,
      balanceAtomic: 10n ** 18n,
      decimals: 18,
      settlementAtomic: 10n ** 12n,
    }));
  }

  probe(): Promise<readonly []> {
    return Promise.resolve([]);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #look({ variants, authorizations }: Submission<Authorization>, height: number): Look {
    const { chain } = this.#options;
    const mined = variants
      .map(({ transaction }) => chain.minedAs(transaction, height))
      .find((each) => each !== undefined);
    const [first] = variants;
    const isSpent =
      first !== undefined && chain.accountNonce(first.account, height) > first.accountNonce;
    const payments = authorizations.map((each) => this.#judge(each, height, mined?.block));
    if (mined === undefined) {
      return {
        payments: this.#lie(variants[0]?.transaction, payments),
        included: null,
        isSpent,
      };
    }
    const confirmations = height - mined.block + 1;
    const isFinal = confirmations >= FINAL_BLOCKS;
    const { id: transaction } = mined.transaction;
    return { payments, included: { transaction, confirmations, isFinal }, isSpent };
  }

  /** `triedIn`: the block that holds a transaction of ours for it. */
  #judge(authorization: Authorization, height: number, triedIn?: number): Confirmation {
    const { chain, confirmations } = this.#options;
    const used = chain.use(authorization, height);
    const isDeep = (block: number): boolean => height - block + 1 >= confirmations;
    if (used !== undefined) {
      const { transaction, block } = used.mined;
      if (!isDeep(block)) return { kind: "unknown", detail: "not deep enough" };
      if (used.kind === "paid") return { kind: "confirmed", transaction: transaction.id };
      const refusal = { code: "invalid_transaction_state", detail: "cancelled" } as const;
      return { kind: "failed", refusal, retriable: false };
    }
    if (chain.timestamp(height - confirmations + 1) >= authorization.validBefore) {
      const code = "invalid_exact_evm_payload_authorization_valid_before";
      return { kind: "failed", refusal: { code, detail: "expired" }, retriable: false };
    }
    if (triedIn === undefined || !isDeep(triedIn)) {
      return { kind: "unknown", detail: "not seen", isUnused: true };
    }
    const refusal = { code: "invalid_transaction_state", detail: "reverted" } as const;
    const retriable = chain.timestamp(height) < authorization.validBefore;
    return { kind: "failed", refusal, retriable };
  }

  /** Once for each submission: some look may be wrong, not every look. */
  #lie(id: string | undefined, payments: readonly Confirmation[]): readonly Confirmation[] {
    const { random, nodeFaults, chain } = this.#options;
    if (id === undefined || chain.liedAbout.has(id) || !random.chance(nodeFaults.lying)) {
      return payments;
    }
    chain.liedAbout.add(id);
    const refusal = { code: "invalid_transaction_state", detail: "reverted, as it seems" } as const;
    return payments.map(() => ({ kind: "failed", refusal, retriable: false }));
  }

  #ask<Value>(
    name: string,
    signal: AbortSignal,
    answer: (height: number) => Value,
    outlives = false,
  ): Promise<Value> {
    const { boundary, life, chain, random, nodeFaults } = this.#options;
    return boundary.cross(life, {
      name: `chain.${name}`,
      mostMs: NODE_MS,
      outlives,
      signal,
      fault: (isTimeUp) =>
        isTimeUp
          ? new ChainError("CHAIN_TIMEOUT", "no answer in time")
          : new ChainError("CHAIN_UNREACHABLE", "the connection broke"),
      effect: () => answer(chain.head - random.between(0, nodeFaults.staleBlocks)),
    });
  }
}

function faultOf(
  { to, value, validAfter, validBefore }: Authorization,
  { paymentRequirements }: FacilitatorRequest,
  now: number,
): Refusal | null {
  const { payTo, maxAmountRequired } = paymentRequirements;
  if (to !== payTo.toLowerCase()) {
    return { code: "invalid_exact_evm_payload_recipient_mismatch", detail: "another recipient" };
  }
  if (now < validAfter) {
    return { code: "invalid_exact_evm_payload_authorization_valid_after", detail: "too early" };
  }
  if (now + 6 >= validBefore) {
    return { code: "invalid_exact_evm_payload_authorization_valid_before", detail: "too late" };
  }
  if (value >= BigInt(maxAmountRequired)) return null;
  return { code: "invalid_exact_evm_payload_authorization_value", detail: "too little" };
}

interface ToSign {
  readonly account: string;
  readonly accountNonce: number;
  readonly fee: number;
  readonly authorizations: readonly Authorization[];
}

/** Whose bytes are their identifier: what they say is written down beside the chain. */
function signTransaction(chain: SimulatedChain, toSign: ToSign): SignedTransaction {
  const { account, accountNonce, fee, authorizations } = toSign;
  const names = authorizations.map(({ id }) => id.slice(-4)).join("+");
  const transaction = `0x${account.slice(-4)}-${accountNonce}-${fee}-${names}`;
  chain.bytes.set(transaction, {
    id: transaction,
    account,
    nonce: accountNonce,
    fee,
    actions: authorizations.map((authorization) => ({ kind: "pay", authorization })),
  });
  return { transaction, raw: transaction, account, accountNonce };
}

function readTransaction(chain: SimulatedChain, raw: string): ChainTransaction {
  const transaction = chain.bytes.get(raw);
  if (transaction === undefined) throw new Error(`no such bytes: ${raw}`);
  return transaction;
}
