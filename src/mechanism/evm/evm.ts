/**
 * The `exact` scheme on an EVM network: the payer signs an EIP-3009 authorization, and we submit it to
 * the token and pay the network fee (protocol sections 1, 2.2, 4.1, 4.2). Every transaction we sign calls
 * one of the configured tokens, or Multicall3 over several payments, and carries no value.
 */
import type { FairLane } from "../../fairness/fair-lane.ts";
import { err, isOk, ok, type Refusal, type Result } from "../../x402/result.ts";
import { payerOf } from "../../x402/payment-key.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  type FacilitatorRequest,
  type SupportedKind,
} from "../../x402/x402.ts";
import { describeUnused, describeWrong } from "../endpoint-findings.ts";
import {
  ChainError,
  SOMEBODY,
  type Asker,
  type Checked,
  type Finding,
  type Inspected,
  type Mechanism,
  type Preparation,
  type SignedTransaction,
  type WalletBalance,
} from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import type { Rpc } from "../rpc.ts";
import {
  judgingLane,
  MAX_PROVEN_WAITING,
  MAX_UNPROVEN_CALLS,
  MAX_UNPROVEN_WAITING,
} from "../judging-lane.ts";
import { Account } from "./account.ts";
import {
  checkedBy,
  firstFault,
  readRequest,
  VALID_BEFORE_MARGIN_SECONDS,
  type EvmCheckedAuthorization,
  type TokenTerms,
} from "./authorization.ts";
import { readAccountNonce, type EvmSubmission } from "./confirmation.ts";
import { Drafting } from "./drafting.ts";
import { openEndpoints } from "./endpoints.ts";
import { FeeReader } from "./fees.ts";
import { inspect, MULTICALL3_ADDRESS, type EvmJudged } from "./inspection.ts";
import { costsOf, type NetworkCosts } from "./network-costs.ts";
import { EvmObserver, type EvmObserverOptions } from "./observer.ts";
import { error, hasCode, probe } from "./probe.ts";
import { EvmPurses } from "./purses.ts";
import { EvmRefunder } from "./refunder.ts";
import { SharedInspection } from "./shared-inspection.ts";
import { readBlock } from "./usage.ts";
import { WalletInspection, type SmartWallets } from "./wallet-inspection.ts";

export { VALID_BEFORE_MARGIN_SECONDS, type EvmCheckedAuthorization } from "./authorization.ts";
export { createEvmObserver, type EvmObserverOptions } from "./observer.ts";

export interface EvmMechanismOptions extends EvmObserverOptions {
  /** Private keys of our paying accounts, `0x` and 64 hex digits. */
  readonly keys: readonly string[];
  /** The private key that pays back; default: nothing is paid back. */
  readonly refundKey?: string | undefined;
  /** Recipients that may be paid: addresses in any letter case, or "any"; whoever has paid may be paid back. */
  readonly allowPayTo: readonly string[] | "any";
  /** Whether payers with code are served (ERC-1271, EIP-7702); default: allow. */
  readonly smartWallets?: SmartWallets;
  /** The most that we pay for one gas, wei. Default: by network. */
  readonly maxFeePerGasWei?: bigint;
}

/** Payments that ask alone at the same time, though their signatures are proven; see {@link MAX_SHARED_CALLS}. */
const MAX_ALONE_CALLS = 16;

/** Opens no connection and reads no chain. @throws {TypeError} on options that cannot work */
export function createEvmMechanism(
  options: EvmMechanismOptions,
): Mechanism<EvmCheckedAuthorization> {
  return new EvmMechanism(options);
}

class EvmMechanism extends EvmObserver implements Mechanism<EvmCheckedAuthorization> {
  readonly scheme = EXACT_SCHEME;
  readonly kind: SupportedKind;
  readonly accounts: readonly string[];
  readonly purses: EvmPurses;
  readonly refunder: EvmRefunder | undefined;

  readonly #terms: TokenTerms;
  #payTo: TokenTerms["payTo"] = null;
  readonly #costs: NetworkCosts;
  readonly #alone = judgingLane({ calls: MAX_ALONE_CALLS, waiting: MAX_PROVEN_WAITING });
  readonly #unproven = judgingLane({ calls: MAX_UNPROVEN_CALLS, waiting: MAX_UNPROVEN_WAITING });
  readonly #shared: SharedInspection;
  readonly #wallets: WalletInspection;
  readonly #fees: FeeReader;
  readonly #drafting: Drafting;
  readonly #clock: () => number;
  /** Until a start-up check has missed it: verification needs it anyhow. */
  #hasMulticall = true;

  constructor(options: EvmMechanismOptions) {
    const { network, clock } = options;
    const accounts = options.keys.map((key) => new Account(key));
    if (accounts.length === 0) throw new TypeError(`${network.name} needs a private key`);
    const opened = openEndpoints(options);
    super(options, opened);
    this.kind = { x402Version: X402_VERSION, scheme: EXACT_SCHEME, network: network.name };
    this.accounts = accounts.map(({ address }) => address);
    this.#clock = clock;
    this.#costs = costsOf(network.name);
    const payTo = (): TokenTerms["payTo"] => this.#payTo;
    this.#terms = {
      tokens: this.tokens,
      get payTo() {
        return payTo();
      },
      validBeforeMarginSeconds: options.validBeforeMarginSeconds ?? VALID_BEFORE_MARGIN_SECONDS,
    };
    const { refundKey } = options;
    this.refunder =
      refundKey === undefined
        ? undefined
        : new EvmRefunder({
            account: new Account(refundKey),
            network: network.name,
            tokens: this.tokens,
            endpoints: this.endpoints,
            clock,
          });
    this.allow(options.allowPayTo);
    this.#shared = new SharedInspection(this.endpoints, this.#costs.gasLimit);
    this.purses = new EvmPurses(this.endpoints, clock);
    const maxFeePerGasWei = options.maxFeePerGasWei ?? this.#costs.maxFeePerGasWei;
    this.#fees = new FeeReader({ maxFeePerGasWei, clock });
    const [fees, costs] = [this.#fees, this.#costs];
    this.#drafting = new Drafting({ network, accounts, costs, fees, clock });
    this.#wallets = new WalletInspection({
      smartWallets: options.smartWallets ?? "allow",
      drafting: this.#drafting,
      account: this.accounts[0] ?? "",
      clock,
    });
  }

  get maxTogether(): number {
    return this.#hasMulticall ? this.#costs.maxTogether : 1;
  }

  check(
    request: FacilitatorRequest,
    now: number,
  ): Result<Checked<EvmCheckedAuthorization>, Refusal> {
    const isOurs = payerOf(request.paymentPayload) === this.refunder?.address;
    const terms = isOurs ? { ...this.#terms, payTo: null } : this.#terms;
    const parsed = readRequest(request, this.network, terms);
    if (!parsed.ok) return parsed;
    const margin = this.#terms.validBeforeMarginSeconds;
    const fault = firstFault(parsed.value, request, now, margin);
    return ok(checkedBy(parsed.value, fault, this.#wallets.refusal));
  }

  async inspect(
    checked: Checked<EvmCheckedAuthorization>,
    signal: AbortSignal,
    asker: Asker = SOMEBODY,
  ): Promise<Result<Inspected<EvmCheckedAuthorization>, Refusal>> {
    const { authorization, fault } = checked;
    const { moment: askedMs } = this.purses;
    if (fault !== null) return err(fault);
    const found = authorization.proven
      ? await this.#inspectProven(authorization, asker, signal)
      : await this.#inspectUnproven(authorization, asker, signal);
    if (!found.ok) return found;
    const { balanceAtomic, runsCode } = found.value;
    return ok({ ...checked, fault, runsCode, purse: { balanceAtomic, askedMs } });
  }

  allow(payTo: readonly string[] | "any"): void {
    this.#payTo = payTo === "any" ? null : new Set(payTo.map((each) => each.toLowerCase()));
  }

  accountFor(): undefined {
    return undefined;
  }

  async prepare(
    payments: readonly Inspected<EvmCheckedAuthorization>[],
    account: string,
    signal: AbortSignal,
  ): Promise<Preparation> {
    if (payments.length > this.maxTogether) {
      throw new TypeError(`${this.network}: at most ${this.maxTogether} payments go together`);
    }
    return this.endpoints.run(
      (rpc) => this.#drafting.prepare(rpc, payments, account, signal),
      signal,
    );
  }

  raise({ variants }: EvmSubmission, signal: AbortSignal): Promise<SignedTransaction | undefined> {
    return this.endpoints.run((rpc) => this.#drafting.raise(rpc, variants, signal), signal);
  }

  accountNonce(account: string, signal: AbortSignal): Promise<number> {
    return this.endpoints.run((rpc) => readAccountNonce(rpc, account, "pending", signal), signal);
  }

  balance(account: string, signal: AbortSignal): Promise<WalletBalance> {
    return this.endpoints.run((rpc) => this.#drafting.balance(rpc, account, signal), signal);
  }

  async headTime(signal: AbortSignal): Promise<number> {
    const head = await this.endpoints.run((rpc) => readBlock(rpc, "latest", signal), signal);
    return Number(head.timestamp);
  }

  override async probe(signal: AbortSignal): Promise<readonly Finding[]> {
    const identified = await this.endpoints.identifyAll(signal);
    const right = identified.filter(({ kind }) => kind === "right");
    if (right.length === 0) return describeWrong(identified);
    const [found] = await Promise.all([
      this.endpoints.run((rpc) => this.#probe(rpc, signal), signal),
      ...right.map(({ rpc }) => this.broadcasting.discover(rpc, signal).catch(ignoreChain)),
    ]);
    return [...describeUnused(identified), ...found];
  }

  override async hasCodeSigned(
    ...asked: Parameters<EvmObserver["hasCodeSigned"]>
  ): Promise<boolean> {
    return this.#wallets.refusal === undefined && super.hasCodeSigned(...asked);
  }

  async #probe(rpc: Rpc, signal: AbortSignal): Promise<readonly Finding[]> {
    const subject = {
      network: this.facts,
      rpc,
      fees: this.#fees,
      tokens: this.#terms.tokens.values(),
      accounts: this.accounts,
      gasLimit: this.#costs.gasLimit,
      clock: this.#clock,
    };
    const [hasMulticall, findings] = await Promise.all([
      hasCode(rpc, MULTICALL3_ADDRESS, signal),
      probe(subject, signal),
    ]);
    this.#hasMulticall = hasMulticall;
    if (hasMulticall) return findings;
    const missing = `${this.network}: there is no Multicall3 at ${MULTICALL3_ADDRESS}`;
    return [error(`${missing}; payments cannot be verified`), ...findings];
  }

  /** What was found good before goes the way of the proven: no stranger's payments stand before it. */
  async #inspectUnproven(
    authorization: EvmCheckedAuthorization,
    asker: Asker,
    signal: AbortSignal,
  ): Promise<Result<Found, Refusal>> {
    const known = this.#wallets.known(authorization);
    if (known !== undefined) return known;
    const judged = await this.#inTurn(
      { lane: this.#unproven, asker, by: this.doubted },
      (rpc) => this.#wallets.inspectUnproven(rpc, authorization, signal),
      signal,
    );
    return judged.ok ? found(judged.value, true) : judged;
  }

  /** What a call that is shared with others does not settle is asked about alone, and that in turn. */
  async #inspectProven(
    authorization: EvmCheckedAuthorization,
    asker: Asker,
    signal: AbortSignal,
  ): Promise<Result<Found, Refusal>> {
    const shared = await this.#shared.inspect(authorization, signal);
    if (shared?.ok === false) return shared;
    if (shared?.value.mayRunCode === false) return found(shared.value, false);
    return this.#inTurn(
      { lane: this.#alone, asker, by: this.endpoints },
      async (rpc) => {
        const judged = shared ?? (await inspect(rpc, authorization, this.#costs.gasLimit, signal));
        if (!judged.ok) return judged;
        if (!judged.value.mayRunCode) return found(judged.value, false);
        const runsCode = await this.#wallets.inspectProven(rpc, authorization, signal);
        return runsCode.ok ? found(judged.value, runsCode.value) : runsCode;
      },
      signal,
    );
  }

  /** What was found good before is no stranger's any more, and waits behind none. */
  #inTurn<Value>(
    { lane, asker, by }: { lane: FairLane; asker: Asker; by: RpcEndpoints },
    judge: (rpc: Rpc) => Promise<Result<Value, Refusal>>,
    signal: AbortSignal,
  ): Promise<Result<Value, Refusal>> {
    if (asker.kind === "renewal") return this.endpoints.run(judge, signal);
    const work = (): Promise<Result<Value, Refusal>> => by.run(judge, signal);
    return lane.run({ client: asker.name, work, isGood: isOk }, signal);
  }
}

/** Of a payment that is good. */
interface Found {
  /** What the payer has, atomic units. */
  readonly balanceAtomic: bigint;
  readonly runsCode: boolean;
}

function found({ balanceAtomic }: EvmJudged, runsCode: boolean): Result<Found, never> {
  return ok({ balanceAtomic, runsCode });
}

/** What an endpoint offers beyond the usual is asked again next time. */
function ignoreChain(cause: unknown): void {
  if (!(cause instanceof ChainError)) throw cause;
}
