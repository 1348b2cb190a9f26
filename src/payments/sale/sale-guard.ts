/**
 * Whom nothing is sold to, and what is sold to nobody for now. Asked when it is proven who pays, before anything is
 * claimed where no chain has to say it; and once more when the claim is granted and the payment verified, which decides:
 * who is denied after that gets what he pays for. What an
 * hour allows is reserved when the payment was found good, so that payments that are worth nothing use up none of it.
 */
import { gasBudget, HOUR_MS, hourOf, SALES, type Reserved } from "../../ledger/budgets.ts";
import { amountOf } from "../../ledger/payment-row.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Pause } from "../../ledger/pauses.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { SalesMeter } from "../../telemetry/sales-meter.ts";
import type { Time } from "../../time/time.ts";
import { findNetwork } from "../../x402/network.ts";
import type { PayerList } from "../../x402/payer-list.ts";
import { payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type { Barred } from "./admission.ts";
import { ReservedPurses } from "./reserved-purses.ts";
import {
  saidOfStop,
  secondsUntil,
  stopOf,
  stopOn,
  type Stop,
  type Stops,
  type StopSource,
} from "./stops.ts";

/** How often it is looked what others have paused and sold, milliseconds. */
const LOOK_MS = 500;

/** What a configuration says of it, amounts in millionths of a dollar. */
export interface SaleRules {
  readonly deny: Pick<PayerList, "has">;
  /** Null: everybody may pay. */
  readonly allow: Pick<PayerList, "has"> | null;
  readonly perPayer: number | null;
  readonly sales: number | null;
  /** What gas may cost in an hour, by network, in the smallest unit of its own currency. */
  readonly gas: ReadonlyMap<string, number>;
  /** The lowest price of each route that is sold, by its key. */
  readonly prices: ReadonlyMap<string, number>;
  /** What a payment is worth. */
  readonly worthOf: (network: string, asset: string, amount: bigint) => number;
}

/** Who pays, where, and for what; a facilitator knows no route. */
export interface Buyer {
  readonly network: string;
  /** Undefined as long as it is not proven: whoever has no key of his is not to learn who is on a list. */
  readonly payer: string | undefined;
  readonly route?: string | undefined;
}

export interface SaleGuardOptions {
  readonly ledger: Pick<Ledger, "budgets" | "pauses">;
  readonly rules: SaleRules;
  readonly meter?: SalesMeter;
  readonly logger: Logger;
  readonly time: Time;
}

/**
 * How version 2, and who settles for many sellers, calls a payer who is on a list; version 1 has fifteen codes and none
 * for that.
 */
const DENIED_CODE = "invalid_exact_evm_payload_authorization_from_address_kyt";

const DENIED = "payments of this payer are not taken here, and nothing was charged; ask the seller";

/** What it takes of this hour is its own. */
export interface Reservation {
  readonly kind: "reserved";
  /** To be called when the payment is decided, or nobody here follows it any more. */
  readonly decided: () => void;
}

export class SaleGuard implements StopSource {
  readonly #at: SaleGuardOptions;
  readonly #purses: ReservedPurses;
  readonly #stopping = new AbortController();
  #rules: SaleRules;
  #pauses: readonly Pause[] = [];
  /** Of this hour: what was sold, and burnt on each network. */
  #counted: ReadonlyMap<string, number> = new Map();
  #stops: Stops = new Map();
  #revision = 0;
  #looking: Promise<void> = Promise.resolve();

  constructor(options: SaleGuardOptions) {
    this.#at = options;
    this.#purses = new ReservedPurses(options.time);
    this.#rules = options.rules;
  }

  get stops(): Stops {
    return this.#stops;
  }

  get revision(): number {
    return this.#revision;
  }

  /** What operators have paused, as they have said it. */
  get pauses(): readonly Pause[] {
    return this.#pauses;
  }

  configure(rules: SaleRules): void {
    this.#rules = rules;
    this.#restop();
  }

  /** Looks at once, and then again and again. Rejects where the ledger cannot be asked. */
  async start(): Promise<void> {
    await this.#look();
    this.#looking = this.#keepLooking();
  }

  /** Resolves when it looks no more. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#looking;
  }

  /** Why a new payment is not taken; undefined: it may be. */
  barOf({ network, payer, route }: Buyer): Barred | undefined {
    if (payer !== undefined && this.isDenied(network, payer)) return this.#denied(network);
    const { stops } = this;
    const stop = (route === undefined ? undefined : stopOf(stops, route)) ?? stopOn(stops, network);
    return stop && this.#stopped(stop);
  }

  /** The same of somebody who has signed in, to get what he has paid for. */
  barOfAccount(network: string, address: string): Barred | undefined {
    return this.isDenied(network, address) ? this.#denied(network) : undefined;
  }

  isDenied(network: string, payer: string): boolean {
    const { deny, allow } = this.#rules;
    return deny.has(network, payer) || allow?.has(network, payer) === false;
  }

  /** Whether nothing may be paid to him either. One who is not among those who alone may pay is paid back. */
  isBarred(network: string, payer: string): boolean {
    return this.#rules.deny.has(network, payer);
  }

  /**
   * Reserves what a claimed payment that was found good may take of this hour; else why it may not. Where an hour is all
   * sellers' together, its purse has to have it besides what others of the purse have reserved: `crowded`, it has not.
   * Throws what the ledger throws.
   * @param meansAtomic what its payer had when it was found good; undefined: nobody says
   */
  async reserve(
    key: PaymentKey,
    request: FacilitatorRequest,
    meansAtomic: bigint | undefined,
    signal: AbortSignal,
  ): Promise<Barred | "crowded" | Reservation> {
    const { perPayer, sales, worthOf } = this.#rules;
    if (perPayer === null && sales === null) return { kind: "reserved", decided: nothing };
    const { network, asset } = request.paymentRequirements;
    const amountAtomic = BigInt(amountOf(request));
    const worth = worthOf(network, asset, amountAtomic);
    const payer = payerOf(request.paymentPayload);
    const sale = { payer, worth, perPayer, sales };
    const purse = `${network} ${asset} ${payer}`.toLowerCase();
    const isShared = sales !== null && meansAtomic !== undefined;
    const draft = isShared ? { purse, amountAtomic, meansAtomic } : undefined;
    const decided = draft === undefined ? nothing : await this.#purses.take(draft, signal);
    if (decided === undefined) return "crowded";
    let reserved: Reserved | undefined;
    try {
      reserved = await this.#at.ledger.budgets.reserve(key, sale);
      if (reserved.kind === "reserved") return { kind: "reserved", decided };
    } finally {
      if (reserved?.kind !== "reserved") decided();
    }
    const { whose, untilMs } = reserved;
    if (whose === "sales") return this.#stopped({ why: "sales", untilMs });
    this.#at.meter?.barred("payer");
    return {
      kind: "barred",
      status: 429,
      refusal: {
        code: "invalid_transaction_state",
        detail:
          "this payer has bought here for as much as one may in an hour, and nothing was charged; try again later",
      },
      seconds: secondsUntil(untilMs, this.#at.time.now()),
    };
  }

  #denied(network: string): Barred {
    this.#at.meter?.barred("denied");
    const isEvm = findNetwork(network)?.kind === "evm";
    const refusal = {
      code: "invalid_payload",
      ...(isEvm && { codeV2: DENIED_CODE }),
      detail: DENIED,
    } as const;
    return { kind: "barred", status: 403, refusal, seconds: null };
  }

  #stopped(stop: Stop): Barred {
    this.#at.meter?.barred(stop.why);
    return {
      kind: "barred",
      status: 503,
      refusal: { code: "unexpected_verify_error", detail: saidOfStop(stop) },
      seconds: secondsUntil(stop.untilMs, this.#at.time.now()),
    };
  }

  async #keepLooking(): Promise<void> {
    const { signal } = this.#stopping;
    let isTold = false;
    for (;;) {
      await this.#at.time.sleep(LOOK_MS, signal);
      if (signal.aborted) return;
      try {
        await this.#look();
        isTold = false;
      } catch (err) {
        // What was known stays, and no payment can be claimed meanwhile.
        if (!isTold) this.#at.logger.warn({ err }, "it cannot be looked up what is paused");
        isTold = true;
      }
    }
  }

  async #look(): Promise<void> {
    const { budgets, pauses } = this.#at.ledger;
    const { sales, gas } = this.#rules;
    const names = [...(sales === null ? [] : [SALES]), ...[...gas.keys()].map(gasBudget)];
    this.#pauses = await pauses.list();
    this.#counted = names.length === 0 ? new Map() : await budgets.counted(names);
    this.#restop();
  }

  #restop(): void {
    const before = this.#stops;
    const next = this.#stopsNow();
    const isSame = JSON.stringify([...before]) === JSON.stringify([...next]);
    if (isSame) return;
    this.#stops = next;
    this.#revision += 1;
    const { logger } = this.#at;
    for (const [scope, stop] of next) {
      if (before.has(scope)) continue;
      const facts = { scope, ...stop, pause: this.#pauses.find((each) => each.scope === scope) };
      if (stop.why === "paused") logger.warn(facts, "sales are paused");
      else logger.error(facts, "the limit of this hour is reached; nothing more is sold");
    }
    for (const scope of before.keys()) {
      if (!next.has(scope)) logger.info({ scope }, "sales go on");
    }
  }

  #stopsNow(): Stops {
    const { sales, gas, prices } = this.#rules;
    const untilMs = (hourOf(this.#at.time.now()) + 1) * HOUR_MS;
    const stops = new Map<string, Stop>();
    for (const pause of this.#pauses) {
      stops.set(pause.scope, { why: "paused", untilMs: pause.untilMs });
    }
    for (const [network, most] of gas) {
      const scope = `network ${network}`;
      const isOver = (this.#counted.get(gasBudget(network)) ?? 0) >= most;
      if (isOver && !stops.has(scope)) stops.set(scope, { why: "gas", untilMs });
    }
    if (sales === null) return stops;
    const left = sales - (this.#counted.get(SALES) ?? 0);
    const tooDear = [...prices].filter(([, price]) => price > left);
    if (tooDear.length === prices.size && prices.size > 0) {
      return stops.set("sales", { why: "sales", untilMs });
    }
    for (const [route] of tooDear) {
      const scope = `route ${route}`;
      if (!stops.has(scope)) stops.set(scope, { why: "sales", untilMs });
    }
    return stops;
  }
}

function nothing(): void {}
