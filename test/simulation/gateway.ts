/**
 * One life of a gateway in the simulated world: the real facilitator, recovery and paywall, in one process or
 * with the paywalls in workers, whose questions about money cross to the process that has it.
 */
import { EmbeddedFacilitator } from "../../src/payments/settlement/embedded.ts";
import { startRecovery } from "../../src/payments/settlement/recovery.ts";
import { Paywall } from "../../src/payments/sale/paywall.ts";
import {
  LocalPaymentService,
  type PaymentService,
} from "../../src/payments/sale/payment-service.ts";
import { lifeWithin } from "../../src/ledger/life.ts";
import type { Lease, Ledger } from "../../src/ledger/ledger.ts";
import type { Telemetry } from "../../src/telemetry/telemetry.ts";
import { WorkerSession } from "../../src/workers/worker-session.ts";
import { RemotePaymentService } from "../../src/workers/remote-payment-service.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import type { SimulatedChain } from "./chain.ts";
import type { Boundary } from "./faults.ts";
import { faultyLedger } from "./faulty-ledger.ts";
import { Front, type UpstreamMood } from "./front.ts";
import type { Journal } from "./journal.ts";
import { Pipe } from "./pipe.ts";
import type { Profile } from "./profile.ts";
import type { Random } from "./random.ts";
import { silentTelemetry } from "./silent-telemetry.ts";
import { SimulatedMechanism, type NodeFaults } from "./simulated-mechanism.ts";
import { LifeTime, type Life, type VirtualTime } from "./virtual-time.ts";

/** Longest that a request is held for its settlement, milliseconds. */
const SETTLEMENT_WAIT_MS = 30_000;
/** How soon the process hears that a worker is gone, milliseconds, at most. */
const HEARD_MS = 20;

export interface GatewayOptions {
  readonly accounts: readonly string[];
  readonly profile: Profile;
  /** That of its life. */
  readonly ledger: Ledger;
  readonly life: Life;
  readonly chain: SimulatedChain;
  readonly boundary: Boundary;
  readonly random: Random;
  readonly time: VirtualTime;
  readonly journal: Journal;
  readonly requirements: PaymentRequirements;
  readonly nodeFaults: NodeFaults;
  readonly mood: UpstreamMood;
  readonly newIdempotencyKey: (life: Life) => string;
  readonly trace: ((line: string) => void) | undefined;
}

/** What requests come to. */
interface Door {
  readonly life: Life;
  readonly front: Front;
  /** The process hears that a worker is gone. */
  readonly close: () => Promise<void>;
}

export class Gateway {
  readonly life: Life;
  readonly #options: GatewayOptions;
  readonly #telemetry: Telemetry;
  readonly #ledger: Ledger;
  readonly #facilitator: EmbeddedFacilitator;
  readonly #doors = new Set<Door>();
  #workers = 0;

  constructor(options: GatewayOptions) {
    const { life, ledger, profile, chain, boundary, random, journal, trace } = options;
    this.life = life;
    this.#options = options;
    const time = new LifeTime(options.time, life);
    const onSigned = (by: Life, account: Lease): void => journal.wasSignedBy(by, account);
    this.#ledger = faultyLedger(ledger, life, boundary, { onSigned });
    const mechanism = new SimulatedMechanism({
      chain,
      boundary,
      life,
      random: random.fork(),
      accounts: options.accounts,
      nodeFaults: options.nodeFaults,
      confirmations: profile.confirmations,
      maxTogether: profile.maxTogether,
    });
    this.#telemetry = silentTelemetry(trace && ((line) => trace(`${life.id}: ${line}`)));
    this.#facilitator = new EmbeddedFacilitator({
      mechanisms: [mechanism],
      ledger: this.#ledger,
      gate: { isOpen: () => true, isTrusted: () => true },
      telemetry: this.#telemetry,
      time,
      describeAsset: () => ({ symbol: "USDC", decimals: 6 }),
    });
    startRecovery(this.#facilitator, this.#telemetry, time);
    if (profile.workers === 0) this.#open(life, this.#payments(this.#ledger));
    for (let worker = 0; worker < profile.workers; worker += 1) this.#fork();
  }

  /** Those that are alive. */
  get doors(): readonly Door[] {
    return [...this.#doors].filter(({ life }) => life.isAlive);
  }

  /** Nothing of it is dead. */
  get isWhole(): boolean {
    const { workers } = this.#options.profile;
    return this.life.isAlive && this.doors.length === Math.max(1, workers);
  }

  /** Its own life, and with it all of its workers', or that of a worker, which another follows. */
  die(life: Life, downMs: number): void {
    life.isAlive = false;
    if (life === this.life) {
      for (const door of this.#doors) door.life.isAlive = false;
      return;
    }
    const { time, random } = this.#options;
    for (const door of this.#doors) {
      if (door.life !== life) continue;
      this.#doors.delete(door);
      time.schedule(random.between(0, HEARD_MS), this.life, () => void door.close());
    }
    time.schedule(downMs, this.life, () => this.#fork());
  }

  #fork(): void {
    this.#workers += 1;
    const { boundary, random, time } = this.#options;
    const name = `${this.#workers}`;
    const worker = this.#ledger.worker(name);
    const desk = new WorkerSession({
      life: worker,
      payments: this.#payments(worker),
      settlementWaitMs: SETTLEMENT_WAIT_MS,
      logger: this.#telemetry.logger,
      time: new LifeTime(time, this.life),
      closing: new AbortController().signal,
    });
    const life = { id: lifeWithin(this.life.id, name), isAlive: true };
    const pipe = new Pipe({ life, desk, boundary, time, random: random.fork() });
    this.#open(life, new RemotePaymentService(pipe, SETTLEMENT_WAIT_MS), () => desk.close());
  }

  #payments(
    redemptions: ConstructorParameters<typeof LocalPaymentService>[0]["redemptions"],
  ): LocalPaymentService {
    const { logger } = this.#telemetry;
    const time = new LifeTime(this.#options.time, this.life);
    return new LocalPaymentService({ facilitator: this.#facilitator, redemptions, logger, time });
  }

  #open(life: Life, payments: PaymentService, close = async (): Promise<void> => undefined): void {
    const { requirements, boundary, random, mood, journal, newIdempotencyKey } = this.#options;
    const time = new LifeTime(this.#options.time, life);
    const paywall = new Paywall({
      payments,
      logger: this.#telemetry.logger,
      settlementWaitMs: SETTLEMENT_WAIT_MS,
      time,
      newIdempotencyKey: () => newIdempotencyKey(life),
    });
    const common = { life, paywall, requirements, boundary, mood, journal, time };
    this.#doors.add({ life, front: new Front({ ...common, random: random.fork() }), close });
  }
}
