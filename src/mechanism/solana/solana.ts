/**
 * The `exact` scheme on Solana: the payer signs a whole transaction that transfers the token and names an
 * account of ours as its fee payer; we add that account's signature and send it (protocol sections 1, 2.2,
 * 4.1, 4.2). A transaction is signed only after it was found to do nothing else.
 */
import { encodeBase58, isSolanaAddress } from "../../x402/solana-address.ts";
import type { SolanaAsset, SolanaNetwork } from "../../x402/network.ts";
import { err, isOk, ok, type Refusal, type Result } from "../../x402/result.ts";
import { payerOf } from "../../x402/payment-key.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  type FacilitatorRequest,
  type SupportedKind,
} from "../../x402/x402.ts";
import { describeUnused, describeWrong } from "../endpoint-findings.ts";
import { judgingLane, MAX_PROVEN_WAITING } from "../judging-lane.ts";
import {
  ChainError,
  SOMEBODY,
  type Asker,
  type Checked,
  type Finding,
  type Inspected,
  type Look,
  type Mechanism,
  type Preparation,
  type SignedTransaction,
  type Submission,
  type WalletBalance,
} from "../mechanism.ts";
import { readLamports } from "./accounts.ts";
import { FeeBalances } from "./balances.ts";
import { MAX_JUDGED, readHeadTime } from "./endpoints.ts";
import { FirstPayments, type Unguarded } from "./first-payments.ts";
import { GuardBudget, type Guarded, type GuardState } from "./guard-budget.ts";
import { listTransactions } from "./history.ts";
import { Inspection, type Simulated } from "./inspection.ts";
import { SolanaObserver, type SolanaChainOptions } from "./observer.ts";
import { checkPayment, type SolanaAuthorization, type SolanaReading } from "./payment.ts";
import { probe } from "./probe.ts";
import type { SolanaJudged, RuleOptions, SolanaToken } from "./rules.ts";
import { SolanaRefunder } from "./refunder.ts";
import { Keypair, withFirstSignature } from "./signing.ts";
import { SourceFunds } from "./source-funds.ts";

export { createSolanaObserver, type SolanaChainOptions } from "./observer.ts";
export type { GuardState } from "./guard-budget.ts";
export type { SolanaAuthorization } from "./payment.ts";

export interface SolanaMechanismOptions extends SolanaChainOptions {
  /** Secrets of our fee payers: hex of 64 bytes each, the seed and the public key. */
  readonly keys: readonly string[];
  /** The secret of the key that pays back, as of the fee payers; default: nothing is paid back. */
  readonly refundKey?: string | undefined;
  /** Recipients that may be paid, beside whoever has paid and is paid back; addresses of other kinds of networks among them are passed over. */
  readonly allowPayTo: readonly string[] | "any";
  /** Those of accounts that buyers are not told any more, and may have been told a while ago. Default: none. */
  readonly leavingKeys?: readonly string[];
  /** The most that one settlement may cost us: signatures and priority together. */
  readonly maxFeeLamports: bigint;
  /** Whether buyers' transactions may hold Lighthouse assertions. */
  readonly lighthouse: "assertions" | "deny";
  /** Lamports that payments with assertions may cost us for nothing within an hour. */
  readonly lighthouseLossPerHour: bigint;
  /** Whether tokens of that owner may not pay, though a delegate may move them. Default: all may. */
  readonly isDenied?: RuleOptions["isDenied"] | undefined;
  /** Told of what they have cost, and whether no more are taken for now. */
  readonly onGuardState?: ((state: GuardState) => void) | undefined;
}

/** Opens no connection and reads no chain. @throws {TypeError} on options that cannot work */
export function createSolanaMechanism(
  options: SolanaMechanismOptions,
): Mechanism<SolanaAuthorization> {
  return new SolanaMechanism(options);
}

/** How often it is told that an account cannot pay, milliseconds. */
const ALARM_PAUSE_MS = 60_000;

/** 64 bytes in hex. */
const KEY = /^[0-9a-fA-F]{128}$/;

class SolanaMechanism extends SolanaObserver implements Mechanism<SolanaAuthorization> {
  readonly scheme = EXACT_SCHEME;
  readonly maxTogether = 1;
  readonly accounts: readonly string[];
  readonly refunder: SolanaRefunder | undefined;

  readonly #facts: SolanaNetwork;
  readonly #assets: readonly SolanaAsset[];
  readonly #keypairs: ReadonlyMap<string, Keypair>;
  readonly #tokens: Map<string, SolanaToken>;
  readonly #terms: RuleOptions;
  #payTo: RuleOptions["payTo"] = null;
  readonly #balances: FeeBalances;
  readonly #inspection: Inspection;
  readonly #funds: SourceFunds;
  readonly #guards: GuardBudget;
  readonly #firsts: FirstPayments;
  readonly #lane = judgingLane({ calls: MAX_JUDGED, waiting: MAX_PROVEN_WAITING });
  readonly #options: Pick<SolanaMechanismOptions, "time" | "onTrouble">;
  #alarmedMs = Number.NEGATIVE_INFINITY;

  constructor(options: SolanaMechanismOptions) {
    const { network, assets, maxFeeLamports, lighthouse, time } = options;
    const offered = options.keys.map(readKey);
    const keypairs = [...offered, ...(options.leavingKeys ?? []).map(readKey)];
    if (offered.length === 0) throw new TypeError(`${network.name} needs a private key`);
    super(options);
    this.#facts = network;
    this.#assets = assets;
    this.#options = options;
    this.#keypairs = new Map(keypairs.map((keypair) => [keypair.address, keypair]));
    this.accounts = [...this.#keypairs.keys()];
    // By mint; a program that is not configured is not known before the mint has been read.
    this.#tokens = new Map(
      assets.map(({ address, symbol, decimals, tokenProgram }) => {
        return [address, { address, symbol, decimals, program: tokenProgram }];
      }),
    );
    const payTo = (): RuleOptions["payTo"] => this.#payTo;
    this.#terms = {
      tokens: this.#tokens,
      feePayers: new Set(this.accounts),
      get payTo() {
        return payTo();
      },
      maxFeeLamports,
      lighthouse,
      isDenied: options.isDenied ?? (() => false),
    };
    const { endpoints } = this;
    this.refunder =
      options.refundKey === undefined
        ? undefined
        : new SolanaRefunder({
            keypair: readKey(options.refundKey),
            network: network.name,
            assets,
            endpoints,
            feePayer: () => this.#balances.preferred,
            draft: (...asked) => this.draft(...asked),
          });
    this.allow(options.allowPayTo);
    const accounts = offered.map(({ address }) => address);
    this.#balances = new FeeBalances({ network: network.name, accounts, maxFeeLamports, time });
    this.#funds = new SourceFunds(time);
    this.#guards = new GuardBudget({
      ...options,
      balances: this.#balances,
      readBalance: (account, signal) => this.balance(account, signal),
    });
    this.#firsts = new FirstPayments({
      time,
      undecidedOf: (payer) => this.#funds.undecidedOf(payer),
      listNewest: (source, signal) => {
        const question = { account: source, before: undefined, minContextSlot: 0 };
        return this.endpoints.run((rpc) => listTransactions(rpc, question, signal), signal);
      },
      onLoss: (message) => this.#alarm(message),
    });
    const { tracker, tables } = this;
    this.#inspection = new Inspection({
      rules: this.#terms,
      tables,
      notedValid: (blockhash, slot) => tracker.notedValid(blockhash, slot),
    });
  }

  /** Names the account of ours that a buyer is to write into the transaction: one that can pay. */
  get kind(): SupportedKind {
    const extra = { feePayer: this.#balances.preferred };
    return { x402Version: X402_VERSION, scheme: EXACT_SCHEME, network: this.network, extra };
  }

  /** A transaction has no window of time that we could see: a blockhash is judged by the chain. */
  check(request: FacilitatorRequest): Result<Checked<SolanaAuthorization>, Refusal> {
    const isOurs = payerOf(request.paymentPayload) === this.refunder?.address;
    const terms = isOurs ? { ...this.#terms, payTo: null } : this.#terms;
    return checkPayment(request, this.network, terms);
  }

  async inspect(
    checked: Checked<SolanaAuthorization>,
    signal: AbortSignal,
    asker: Asker = SOMEBODY,
  ): Promise<Result<Inspected<SolanaAuthorization>, Refusal>> {
    const { authorization, fault } = checked;
    if (fault !== null) return err(fault);
    const { judged: known } = authorization;
    const admitted = await this.#admitGuarded(authorization, known, signal);
    if (!admitted.ok) return admitted;
    const read = async (moment: number): Promise<Result<SolanaReading, Refusal>> => {
      // Simulates; what that leaves in the account that pays.
      const { messageHash, demand } = authorization;
      const found = await this.#simulate(authorization, asker, signal);
      if (!found.ok) return found;
      const { judged, left } = found.value;
      const { payer, source, isGuarded } = judged;
      const { amount } = demand;
      return ok({ messageHash, payer, source, amount, isGuarded, left, moment, judged });
    };
    // A lane that renews a judgement signs nothing while it waits; what does not fit, `prepare` leaves out.
    const isLast = asker.kind === "renewal" && asker.isLast === true;
    const readOnce = (): Promise<Result<SolanaReading, Refusal>> =>
      isLast ? read(this.#funds.moment) : this.#funds.admit(read, signal);
    let reading = await readOnce();
    if (!reading.ok) return reading;
    const unguarded = unguardedOf(authorization, reading.value.judged);
    if (unguarded !== undefined && !isLast) {
      const first = await this.#firsts.admit(unguarded, signal);
      if (!first.ok) return first;
      if (first.value) reading = await readOnce();
      if (!reading.ok) return reading;
    }
    const { judged } = reading.value;
    if (known === undefined) {
      const fits = await this.#admitGuarded(authorization, judged, signal);
      if (!fits.ok) return fits;
    }
    const { left, amount } = reading.value;
    return ok({
      ...checked,
      fault,
      meansAtomic: left + amount,
      authorization: { ...authorization, judged, reading: reading.value },
    });
  }

  allow(payTo: readonly string[] | "any"): void {
    this.#payTo = payTo === "any" ? null : new Set(payTo.filter(isSolanaAddress));
  }

  accountFor({ authorization }: Checked<SolanaAuthorization>): string {
    return authorization.feePayer;
  }

  async prepare(
    payments: readonly Inspected<SolanaAuthorization>[],
    account: string,
    signal: AbortSignal,
  ): Promise<Preparation> {
    const [payment] = payments;
    if (payment === undefined || payments.length > 1) {
      throw new TypeError(`${this.network}: payments are settled one by one`);
    }
    const { authorization } = payment;
    const keypair = this.#keypairs.get(account);
    if (keypair === undefined || authorization.feePayer !== account) {
      throw new TypeError(`${this.network}: ${account} is not the payment's fee payer`);
    }
    const { judged, reading } = authorization;
    if (judged === undefined || reading === undefined) {
      throw new TypeError(`${this.network}: what was not judged is not signed`);
    }
    const cost = judged.networkFeeLamports;
    // What is known may be old: an account that was filled up is not turned down.
    if (!this.#balances.canPay(account, cost)) await this.balance(account, signal);
    // From here to the reservations no other payment comes in between.
    const guarded = guardedOf(authorization, judged);
    const unguarded = unguardedOf(authorization, judged);
    const isBounded = this.#guards.fits(guarded) && this.#firsts.fits(unguarded);
    if (!isBounded || !this.#funds.fits(reading)) return { draft: undefined, leftOut: [0] };
    this.#balances.reserve(account, cost);
    this.#firsts.reserve(unguarded);
    this.#funds.reserve(reading);
    this.#guards.reserve(guarded);
    const sign = (nonce: number): SignedTransaction => {
      this.#guards.signed(authorization.messageHash);
      this.#firsts.signed(authorization.messageHash);
      // Our signature over the message that was judged, put into the bytes that were received (S4, S11).
      const signature = keypair.sign(authorization.transaction.message);
      const raw = Buffer.from(withFirstSignature(authorization.transaction, signature)).toString(
        "base64",
      );
      return {
        transaction: encodeBase58(signature),
        raw,
        account: keypair.address,
        accountNonce: nonce,
      };
    };
    return { draft: { account, sign }, leftOut: [] };
  }

  /** A fee cannot be raised: the payer has signed it. */
  raise(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  override async look(
    submission: Submission<SolanaAuthorization>,
    signal: AbortSignal,
  ): Promise<Look> {
    const look = await super.look(submission, signal);
    for (const { messageHash, payer } of submission.authorizations) {
      const isNews = look.isSpent && this.#funds.decided(messageHash);
      this.#guards.found(messageHash, payer, look);
      this.#firsts.found(messageHash, payer, look, isNews);
    }
    return look;
  }

  accountNonce(): Promise<number> {
    return Promise.resolve(0);
  }

  async balance(account: string, signal: AbortSignal): Promise<WalletBalance> {
    const lamports = await this.endpoints.run((rpc) => readLamports(rpc, account, signal), signal);
    this.#balances.noted(account, lamports);
    // Asked for every now and then: what time has changed is told then, too.
    this.#guards.tell();
    return {
      address: account,
      balanceAtomic: lamports,
      decimals: this.#facts.nativeCurrency.decimals,
      settlementAtomic: this.#balances.settlementLamports,
    };
  }

  headTime(signal: AbortSignal): Promise<number> {
    return this.endpoints.run((rpc) => readHeadTime(rpc, signal), signal);
  }

  override async probe(signal: AbortSignal): Promise<readonly Finding[]> {
    const { endpoints } = this;
    const identified = await endpoints.identifyAll(signal);
    if (!identified.some(({ kind }) => kind === "right")) return describeWrong(identified);
    const subject = {
      network: this.#facts,
      assets: this.#assets,
      accounts: this.accounts,
      payTo: this.#terms.payTo,
      balances: this.#balances,
      foundProgram: (asset: string, program: string) => {
        const token = this.#tokens.get(asset);
        if (token === undefined || token.program === program) return;
        this.#tokens.set(asset, { ...token, program });
      },
    };
    const found = await endpoints.run((rpc) => probe(subject, rpc, signal), signal);
    return [...describeUnused(identified), ...found];
  }

  /** Ok for what has no assertions, or cannot be judged as yet. */
  async #admitGuarded(
    authorization: SolanaAuthorization,
    judged: SolanaJudged | undefined,
    signal: AbortSignal,
  ): Promise<Result<void, Refusal>> {
    const guarded = judged && guardedOf(authorization, judged);
    return guarded === undefined ? ok(undefined) : this.#guards.admit(guarded, signal);
  }

  /** What was found good before is no stranger's any more, and waits behind none. */
  async #simulate(
    authorization: SolanaAuthorization,
    asker: Asker,
    signal: AbortSignal,
  ): Promise<Result<Simulated, Refusal>> {
    const { endpoints } = this;
    const work = (): Promise<Result<Simulated, Refusal>> =>
      endpoints.run((rpc) => this.#inspection.inspect(rpc, authorization, signal), signal);
    try {
      if (asker.kind === "renewal") return await work();
      const turn = { client: asker.name, work, isGood: isOk };
      return await this.#lane.run(turn, signal);
    } catch (error) {
      if (error instanceof ChainError && error.code === "CHAIN_GAS") {
        this.#balances.notedShort(authorization.feePayer);
        this.#alarm(error.message);
      }
      throw error;
    }
  }

  /** Not for each payment anew. */
  #alarm(message: string): void {
    const nowMs = this.#options.time.now();
    if (nowMs - this.#alarmedMs < ALARM_PAUSE_MS) return;
    this.#alarmedMs = nowMs;
    this.#options.onTrouble?.(`${this.network}: ${message}`);
  }
}

/** Undefined for what has no assertions. */
function guardedOf(
  { messageHash, feePayer }: SolanaAuthorization,
  judged: SolanaJudged,
): Guarded | undefined {
  return judged.isGuarded ? { ...judged, messageHash, feePayer } : undefined;
}

/** Undefined for what has assertions. */
function unguardedOf(
  { messageHash }: SolanaAuthorization,
  judged: SolanaJudged,
): Unguarded | undefined {
  return judged.isGuarded ? undefined : { ...judged, messageHash };
}

/** Throws a `TypeError` that does not repeat the text when it is not a key. */
function readKey(text: string): Keypair {
  if (!KEY.test(text)) throw new TypeError("a Solana key must be 128 hex digits");
  return new Keypair(Buffer.from(text, "hex"));
}
