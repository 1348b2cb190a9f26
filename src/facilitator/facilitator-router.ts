/**
 * Several facilitators as one: networks that this process settles itself go to the embedded one, the
 * rest to the remote ones in their configured order, past those whose circuit is open. A verification may
 * fail over freely; a settlement begins with the facilitator that verified it, and moves on only where
 * nothing can have been sent. One that was handed over before is asked for where it was left, whatever
 * the order and whatever the circuit. On Solana a payment names the account that pays its network fee, so
 * only the facilitator with that account can settle it, and no other is asked.
 */
import type { AskedFacilitator, Handed } from "./handed.ts";
import type { WatchSurroundings } from "../payments/settlement/surroundings.ts";
import type { HandedOver } from "../ledger/ledger.ts";
import { amountOf } from "../ledger/payment-row.ts";
import {
  ChainError,
  type FirstLooks,
  type Observer,
  type Standing,
} from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { sooner, type Time } from "../time/time.ts";
import { findNetwork } from "../x402/network.ts";
import { payerOf, solanaTransactionOf } from "../x402/payment-key.ts";
import { err, isOk, ok, refuse, type Refusal, type Result } from "../x402/result.ts";
import { inBothVersions } from "../x402/version-2.ts";
import type { FacilitatorRequest, SettleResponse, SupportedResponse } from "../x402/x402.ts";
import { Circuit, type Send } from "./circuit.ts";
import {
  CrowdedFault,
  FacilitatorFault,
  type Doubted,
  type Facilitator,
  Payment,
  type ForeignRule,
  type SettleOptions,
  type Verified,
} from "../payments/facilitator.ts";
import { describeForeign, nobody, NO_RECEIPTS } from "./nobody.ts";
import { RemoteSettlement } from "./remote-settlement.ts";
import type { RemoteFacilitator } from "./remote.ts";
import type { Settlers } from "./settlers.ts";
import { failure } from "../payments/said-no.ts";
import { SecondLooks } from "./second-looks.ts";
import { inProtocolOrder, nameOfKind } from "./supported-kinds.ts";
import { Standings } from "./standings.ts";

/** How long a verification waits for one facilitator while another one can be asked, milliseconds. */
const VERIFY_SHARE_MS = 3_000;
/**
 * After its hand-over a payment is left to whoever handed it over, for as long as the call may take and so
 * much longer, milliseconds: asked for by two, it could be dropped by one as unseen and settled for the other.
 */
const REPEAT_MARGIN_MS = 20_000;
/** The chain may be looked at sooner: looking changes nothing, milliseconds after the hand-over. */
const LOOK_MARGIN_MS = 5_000;

const SETTLING = "unexpected_settle_error";

export interface FacilitatorRouterOptions {
  /** Undefined where this process neither settles nor has settled anything itself. */
  readonly embedded: (Facilitator & { readonly networks: readonly string[] }) | undefined;
  /** In the order in which they are asked; their names differ. */
  readonly remotes: readonly RemoteFacilitator[];
  /** The chains that can be asked about networks which are settled remotely. */
  readonly observers: ReadonlyMap<string, Observer>;
  /** What is certain of a payment before a facilitator is asked. Default: nothing ever is. */
  readonly firstLooks?: FirstLooks;
  readonly telemetry: Telemetry;
  readonly time: Time;
  /** Default: what is in a transaction of nobody that we know is held. */
  readonly foreign?: ForeignRule | undefined;
  /** Symbol and decimals of a token, for metrics. Default: what others settle is not summed up. */
  readonly describeAsset?: WatchSurroundings["describeAsset"];
}

interface Member {
  readonly remote: RemoteFacilitator;
  readonly circuit: Circuit;
  /** Only for what it was handed before, and what names its account on Solana. */
  readonly isLeaving: boolean;
}

/** What is settled elsewhere, and which route sells for it, where that is known. */
interface SoldPayment {
  readonly request: FacilitatorRequest;
  readonly route?: string | null | undefined;
}

export class FacilitatorRouter implements Facilitator {
  readonly #options: FacilitatorRouterOptions;
  #embeddedNetworks: ReadonlySet<string>;
  #shared: ReadonlySet<string> = new Set();
  #all: readonly Member[];
  readonly #settlement: RemoteSettlement;
  readonly #standings: Standings;
  readonly #secondLooks: SecondLooks;
  /** Settlements that are being worked on, by idempotency key. */
  readonly #running = new Map<string, number>();

  constructor(options: FacilitatorRouterOptions) {
    this.#options = options;
    this.#embeddedNetworks = new Set(options.embedded?.networks);
    this.#settlement = new RemoteSettlement(options);
    this.#standings = new Standings(options.observers);
    this.#secondLooks = new SecondLooks(options.time);
    this.#all = options.remotes.map((remote) => {
      return { remote, circuit: this.#circuit(remote), isLeaving: false };
    });
  }

  /** What is known of a facilitator that stays is kept. */
  use({ here, shared, remotes }: Settlers): void {
    this.#embeddedNetworks = new Set(here);
    this.#shared = new Set(shared);
    const before = this.#all;
    this.#all = remotes.map(({ remote, isLeaving }) => {
      const known = before.find((each) => each.remote === remote);
      return { remote, circuit: known?.circuit ?? this.#circuit(remote), isLeaving };
    });
    const names = new Set(remotes.map(({ remote }) => remote.name));
    for (const { remote } of before) {
      if (names.has(remote.name)) continue;
      this.#options.telemetry.metrics.facilitatorHealth(remote.name, undefined);
    }
  }

  isRemote(network: string): boolean {
    return !this.#isHere(network);
  }

  seesUse(network: string): boolean {
    return this.#isHere(network) || this.#options.observers.has(network);
  }

  read(request: FacilitatorRequest): Result<Payment, Refusal> {
    const { network } = request.paymentRequirements;
    const { embedded } = this.#options;
    if (embedded !== undefined && this.#isHere(network, request)) return embedded.read(request);
    return Payment.read(request, (each) => {
      const checked = this.#options.firstLooks?.look(each);
      return checked && ok(checked);
    });
  }

  /**
   * A payment that none of them can settle has to be signed anew; `verify` and `settle` are less sure, since
   * a facilitator may have an account that it has not told yet.
   */
  precheck(payment: Payment): Refusal | undefined {
    const { network, request, fault } = payment;
    if (this.#isHere(network, request) || fault !== undefined) return fault;
    if (this.#members.length === 0 || this.#able(request).length > 0) return undefined;
    const detail = `${describeForeign(request)}; sign a new payment for the one that is asked for`;
    return { code: "invalid_payload", detail };
  }

  /** Of clients' payments few are judged at a time, and of those whose signature proves nothing fewer. */
  async verify(
    payment: Payment,
    signal: AbortSignal,
    client = "",
  ): Promise<Result<Verified, Refusal>> {
    const { network, request, fault, checked } = payment;
    const here = this.#here(payment);
    if (here !== undefined) return here.verify(payment, signal, client);
    // Whatever a facilitator would say, it is not paid by this.
    if (fault !== undefined) return err(fault);
    const told = Promise.withResolvers<Result<Verified, Refusal>>();
    const work = async (): Promise<Result<Verified, Refusal>> => {
      // The chain, where it can be asked, is asked at the same time.
      const asked = this.#standings.read(request, "unexpected_verify_error", signal);
      const verdict = this.#verifyElsewhere(request, asked, signal);
      told.resolve(verdict);
      // A refusal does not wait for the chain, but the turn lasts as long as anybody is asked.
      await Promise.allSettled([verdict, asked]);
      return verdict;
    };
    const { firstLooks } = this.#options;
    const isProven = checked?.ok !== true || checked.value.proven;
    const turn = firstLooks?.inTurn(isProven, { client, work, isGood: isOk }, signal) ?? work();
    return Promise.race([told.promise, turn]).catch((cause: unknown) => {
      if (!(cause instanceof ChainError)) throw cause;
      throw new CrowdedFault(network, "unexpected_verify_error", { cause });
    });
  }

  /** What is used already is refused. */
  async #verifyElsewhere(
    request: FacilitatorRequest,
    asked: Promise<Standing | null>,
    signal: AbortSignal,
  ): Promise<Result<Verified, Refusal>> {
    const by = await this.#askToVerify(request, signal);
    if (!by.ok) return by;
    const standing = await asked;
    return standing?.used == null ? ok({ by: by.value, standing }) : err(standing.used);
  }

  /** The name of the one that finds it valid. */
  async #askToVerify(
    request: FacilitatorRequest,
    signal: AbortSignal,
  ): Promise<Result<string, Refusal>> {
    const code = "unexpected_verify_error";
    const able = this.#able(request);
    let fault: FacilitatorFault | undefined;
    for (const [member, send] of this.#toAsk(able)) {
      const { remote } = member;
      const later = able.slice(able.indexOf(member) + 1);
      const limit = later.some(({ circuit }) => !circuit.isOpen)
        ? sooner(signal, this.#options.time.timeout(VERIFY_SHARE_MS))
        : signal;
      try {
        const verdict = await send(() => remote.verify(request, limit), signal);
        if (verdict.isValid) return ok(remote.name);
        const { invalidReason, detail = "the facilitator refused the payment" } = verdict;
        return refuse(invalidReason, detail);
      } catch (cause) {
        if (!(cause instanceof FacilitatorFault) || signal.aborted) throw cause;
        fault = cause;
      }
    }
    throw fault ?? this.#nobody(code, request, able);
  }

  /** With `askedBefore` it answers only what is definite and throws nothing but `unknown`. */
  async settle(payment: Payment, options: SettleOptions): Promise<SettleResponse> {
    const { askedBefore: name, handedOverAt: head = null, idempotencyKey = "", route } = options;
    const { embedded } = this.#options;
    const { request } = payment;
    if (options.isSigned === true && embedded !== undefined) {
      return embedded.settle(payment, options);
    }
    if (name !== undefined) {
      const repeat = { ...options, name, asked: this.#named(name), idempotencyKey };
      const handed = { request, head };
      const ask = () => this.#settlement.again(repeat, handed);
      return this.#counted({ request, route }, idempotencyKey, ask);
    }
    const here = this.#here(payment);
    if (here !== undefined) return here.settle(payment, options);
    const ask = () => this.#settleFirst(request, options);
    return this.#counted({ request, route }, idempotencyKey, ask);
  }

  async supported(signal: AbortSignal): Promise<SupportedResponse> {
    const own = await this.#options.embedded?.supported(signal);
    const kinds = new Map(own?.kinds.map((kind) => [nameOfKind(kind), kind]));
    const signers = new Map(Object.entries(own?.signers ?? {}));
    const answers = await Promise.allSettled(
      this.#members.map(({ remote }) => remote.supported(signal)),
    );
    for (const answer of answers) {
      if (answer.status === "rejected") {
        // What the others settle is settled whether or not this one can be asked.
        const { logger } = this.#options.telemetry;
        logger.warn({ err: answer.reason }, "a facilitator does not say what it supports");
        continue;
      }
      // Whoever settles through us may see transactions of theirs.
      for (const [pattern, told] of Object.entries(answer.value.signers ?? {})) {
        signers.set(pattern, [...new Set([...(signers.get(pattern) ?? []), ...told])]);
      }
      for (const kind of inBothVersions(answer.value.kinds)) {
        if (!kinds.has(nameOfKind(kind))) kinds.set(nameOfKind(kind), kind);
      }
    }
    const failed = answers.find((answer) => answer.status === "rejected");
    if (kinds.size === 0 && failed !== undefined) throw failed.reason;
    const { finalRefusals = [] } = own ?? {};
    return {
      kinds: [...kinds.values()].sort(inProtocolOrder),
      ...(signers.size > 0 && { signers: Object.fromEntries(signers) }),
      ...(finalRefusals.length > 0 && { finalRefusals }),
    };
  }

  /** Whether it failed so often in a row that others are asked in its place. */
  isAvoided(facilitator: string): boolean {
    return this.#members.some(
      ({ remote, circuit }) => remote.name === facilitator && circuit.isOpen,
    );
  }

  /**
   * The account that a buyer on a Solana network has to name as fee payer: that of the first facilitator
   * that can be asked. Undefined where none has told one, and on networks settled here.
   */
  feePayer(network: string): string | undefined {
    let first: string | undefined;
    for (const { remote, circuit } of this.#isHere(network) ? [] : this.#members) {
      const told = remote.feePayers.current(network);
      if (told === undefined || !this.#settlement.canCount(remote, network)) continue;
      if (!circuit.isOpen) return told;
      first ??= told;
    }
    return first;
  }

  /** Whether a facilitator elsewhere has told, now or before, that it pays network fees from that account. */
  hasFeePayer(network: string, address: string): boolean {
    if (this.#isHere(network) && !this.#shared.has(network)) return false;
    return this.#all.some(({ remote }) => remote.feePayers.has(network, address) === true);
  }

  /**
   * Whether nobody works any more on a payment that was handed over: nobody in this process, and nobody
   * elsewhere as far as its age tells.
   */
  isLeft({ request, idempotencyKey, facilitator, sinceMs }: HandedOver): boolean {
    if (this.#running.has(idempotencyKey)) return false;
    const untouchedMs = this.#options.time.now() - sinceMs;
    if (this.#settlement.canSee(request)) return untouchedMs > LOOK_MARGIN_MS;
    const { timeoutMs = 0 } = this.#named(facilitator)?.remote ?? {};
    return untouchedMs > timeoutMs + REPEAT_MARGIN_MS;
  }

  /**
   * One try to find out what became of a payment that was handed over and left. Answers only what is
   * definite; throws {@link FacilitatorFault} `unknown` otherwise.
   */
  recover(
    handedOver: HandedOver,
    options: Pick<SettleOptions, "signal" | "onHandOver">,
  ): Promise<SettleResponse> {
    const { request, route, idempotencyKey, facilitator: name, handedOverAt: head } = handedOver;
    const repeat = { ...options, name, asked: this.#named(name), idempotencyKey };
    const handed = { request, head };
    const ask = () => this.#settlement.recover(repeat, handed);
    return this.#counted({ request, route }, idempotencyKey, ask);
  }

  lookAgain(doubted: Doubted, signal: AbortSignal): Promise<SettleResponse | undefined> {
    return this.#secondLooks.take(doubted.key, () => this.recoverDoubted(doubted, signal));
  }

  /** The same for nobody who waits, as often as it is asked. */
  async recoverDoubted(
    { request, route, handedOverAt: head, facilitator, idempotencyKey }: Doubted,
    signal: AbortSignal,
  ): Promise<SettleResponse | undefined> {
    const to = { asked: this.#named(facilitator), idempotencyKey, signal };
    const answer = await this.#settlement.lookAgain({ request, head }, to);
    if (answer !== undefined) this.#count({ request, route }, answer);
    return answer;
  }

  /** Asks those whose circuit is open whether they are there again, at no buyer's cost. Never rejects. */
  async probe(signal: AbortSignal): Promise<void> {
    const open = this.#members.filter(({ circuit }) => circuit.isOpen);
    const looks = open.map(async ({ remote, circuit }) => {
      await remote.supported(signal);
      circuit.looksWell();
    });
    await Promise.allSettled(looks);
  }

  async #settleFirst(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse> {
    const { network } = request.paymentRequirements;
    // Without a claim of its own nobody takes the chain's word, and a repetition is the facilitator's to know.
    if (options.onHandOver === undefined) return this.#handOver({ request, head: null }, options);
    const { standing = await this.#standings.read(request, SETTLING, options.signal) } =
      options.verified ?? {};
    const { used = null, head = null } = standing ?? {};
    if (used !== null) return failure(used, network, payerOf(request.paymentPayload));
    return this.#handOver({ request, head }, options);
  }

  async #handOver(handed: Handed, options: SettleOptions): Promise<SettleResponse> {
    const { request } = handed;
    const { network } = request.paymentRequirements;
    const code = SETTLING;
    const able = this.#able(request);
    let fault: FacilitatorFault | undefined;
    // A facilitator that judged the payment a moment ago can be reached.
    const isFirst = ({ remote }: Member): boolean => remote.name === options.verified?.by;
    const inOrder = [...able].sort((left, right) => Number(isFirst(right)) - Number(isFirst(left)));
    const usable = inOrder.filter(({ remote }) => this.#settlement.canCount(remote, network));
    if (usable.length === 0 && inOrder.length > 0) fault = nobody(code, NO_RECEIPTS);
    for (const [{ remote }, send] of this.#toAsk(usable)) {
      try {
        return await this.#settlement.first({ remote, send }, handed, options);
      } catch (cause) {
        const mayMoveOn = cause instanceof FacilitatorFault && cause.kind === "unreachable";
        if (!mayMoveOn || options.signal.aborted) throw cause;
        fault = cause;
      }
    }
    throw fault ?? this.#nobody(code, request, able);
  }

  /** Those whose circuit lets a request through, one by one; the first one when there is none. */
  *#toAsk(members: readonly Member[]): Generator<readonly [Member, Send]> {
    let count = 0;
    for (const member of members) {
      const send = member.circuit.enter();
      if (send === undefined) continue;
      count += 1;
      yield [member, send];
    }
    const [first] = members;
    if (count === 0 && first !== undefined) yield [first, first.circuit.send];
  }

  /**
   * Those that may settle the payment: on Solana who has its fee payer, or where nobody is known to, whose
   * accounts are not known.
   */
  #able({ paymentPayload, paymentRequirements }: FacilitatorRequest): readonly Member[] {
    const { network } = paymentRequirements;
    if (findNetwork(network)?.kind !== "solana") return this.#members;
    const transaction = solanaTransactionOf(paymentPayload);
    if (!transaction.ok) return this.#members;
    const { feePayer } = transaction.value;
    const known = this.#all.map(
      (member) => [member, member.remote.feePayers.has(network, feePayer)] as const,
    );
    const wanted = known.some(([, has]) => has === true) ? true : undefined;
    return known.flatMap(([member, has]) => {
      const isAsked = has === wanted && (has === true || !member.isLeaving);
      return isAsked ? [member] : [];
    });
  }

  #nobody(
    code: FacilitatorFault["code"],
    request: FacilitatorRequest,
    able: readonly Member[],
  ): FacilitatorFault {
    const isFor = able.length === 0 && this.#members.length > 0;
    return isFor ? nobody(code, describeForeign(request)) : nobody(code);
  }

  #named(name: string): AskedFacilitator | undefined {
    const member = this.#all.find(({ remote }) => remote.name === name);
    return member && { remote: member.remote, send: member.circuit.send };
  }

  get #members(): readonly Member[] {
    const staying = this.#all.filter(({ isLeaving }) => !isLeaving);
    return staying.length > 0 ? staying : this.#all;
  }

  #here({ network, request }: Payment): Facilitator | undefined {
    return this.#isHere(network, request) ? this.#options.embedded : undefined;
  }

  #isHere(network: string, request?: FacilitatorRequest): boolean {
    if (request === undefined || !this.#shared.has(network)) {
      return this.#embeddedNetworks.has(network);
    }
    const transaction = solanaTransactionOf(request.paymentPayload);
    if (!transaction.ok) return this.#embeddedNetworks.has(network);
    return !this.hasFeePayer(network, transaction.value.feePayer);
  }

  #circuit({ name }: RemoteFacilitator): Circuit {
    const { time, telemetry } = this.#options;
    const { logger, metrics } = telemetry;
    metrics.facilitatorHealth(name, true);
    const onChange = (isHealthy: boolean): void => {
      metrics.facilitatorHealth(name, isHealthy);
      if (isHealthy) logger.info({ facilitator: name }, "a facilitator answers again");
      else logger.warn({ facilitator: name }, "a facilitator fails; it is asked less often");
    };
    return new Circuit({ time, onChange });
  }

  /** A success is money that was settled; each is told once, but to callers who ask at the same time. */
  async #counted(
    sold: SoldPayment,
    idempotencyKey: string,
    settle: () => Promise<SettleResponse>,
  ): Promise<SettleResponse> {
    const answer = await this.#whileRunning(idempotencyKey, settle);
    this.#count(sold, answer);
    return answer;
  }

  #count({ request, route }: SoldPayment, { success }: SettleResponse): void {
    const { telemetry, describeAsset } = this.#options;
    if (!success || describeAsset === undefined) return;
    const { network, asset: address } = request.paymentRequirements;
    const { symbol: asset, decimals } = describeAsset(network, address);
    const amountAtomic = BigInt(amountOf(request));
    telemetry.metrics.settledAmount({ route, network, asset, decimals, amountAtomic });
  }

  async #whileRunning<Value>(key: string, work: () => Promise<Value>): Promise<Value> {
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const count = (this.#running.get(key) ?? 1) - 1;
      if (count === 0) this.#running.delete(key);
      else this.#running.set(key, count);
    }
  }
}
