/**
 * The engine of one configured upstream: several targets that serve the same. Which of them a request goes
 * to, which are left alone because they cannot be reached or answer badly, and when a request is tried again:
 *
 *     rewrite -> choose: one that may be back | one that is up | ejected | down -> forward
 *                  ^-- tried again: nothing was sent, or unpaid and the method allows it --'
 *
 * A sale is sent once: after a target may have seen it, nobody else does.
 */
import type { Unanswered } from "../../../http/unanswered.ts";
import type { Telemetry } from "../../../telemetry/telemetry.ts";
import type { Time } from "../../../time/time.ts";
import type { InboundRequest } from "../../message/inbound.ts";
import { openTarget } from "../open-target.ts";
import type {
  Delivery,
  Engine,
  UpstreamExchange,
  Switching,
  TargetEngine,
  TargetOptions,
  UpgradeExchange,
} from "../upstream.ts";
import { balancerOf, type Balance, type Balancer } from "./balance.ts";
import { check, probeOf, type HealthFinding, type HealthCheckOptions } from "./health-check.ts";
import { BackendTarget, type MemberState } from "./backend-target.ts";
import { RetryBudget, RetryRule, type RetryOptions } from "./retry.ts";
import { Rewriting, type RewritingOptions } from "./rewriting.ts";

export interface BackendOptions {
  /** Of the upstream in the configuration: for logs and metrics. */
  readonly name: string;
  /** At least one; a weight is a whole number, 1 or more. */
  readonly targets: readonly { readonly origin: string; readonly weight: number }[];
  /** What all targets have in common. */
  readonly target: Omit<TargetOptions, "origin">;
  readonly balance: Balance;
  /** Null: nobody asks but the requests themselves. */
  readonly check: HealthCheckOptions | null;
  readonly retry: RetryOptions;
  readonly rewriting: RewritingOptions;
}

export interface BackendGround {
  readonly telemetry: Telemetry;
  readonly time: Time;
  /** Milliseconds that only grow. Default: `performance.now`. */
  readonly now?: () => number;
  /** From 0 to below 1. Default: `Math.random`. */
  readonly random?: () => number;
  /** Default: `openTarget`. */
  readonly open?: (options: TargetOptions) => TargetEngine;
}

/** The pause before a request goes to the same target again, milliseconds, and as much again at random. */
const SAME_TARGET_PAUSE_MS = 25;

/** What each attempt leaves on the socket of a handshake until that closes; more than that is a leak. */
const LISTENERS_OF_AN_ATTEMPT = 10;

/** Where no check is configured, none is ever noted. */
const UNCHECKED = { up: 1, down: 1 };

/** Connects lazily: targets may come up after the gateway. */
export function openBackend(options: BackendOptions, ground: BackendGround): Engine {
  return new Backend(options, {
    now: () => performance.now(),
    random: Math.random,
    open: openTarget,
    ...ground,
  });
}

type Send<Carried> = (engine: TargetEngine, exchange: Carried) => Promise<Delivery>;

const forwardTo: Send<UpstreamExchange> = (engine, exchange) => engine.forward(exchange);
const upgradeTo: Send<UpgradeExchange> = (engine, exchange) => {
  const { socket } = exchange;
  socket.setMaxListeners(socket.getMaxListeners() + LISTENERS_OF_AN_ATTEMPT);
  return engine.upgrade(exchange);
};

class Backend implements Engine {
  readonly #options: BackendOptions;
  readonly #ground: Required<BackendGround>;
  readonly #members: readonly BackendTarget[];
  readonly #balance: Balancer;
  readonly #rule: RetryRule;
  readonly #budget: RetryBudget;
  readonly #rewriting: Rewriting;
  readonly #checking = new AbortController();
  readonly #checks: readonly Promise<void>[];
  /** The members that are up. */
  #up: readonly BackendTarget[];

  constructor(options: BackendOptions, ground: Required<BackendGround>) {
    this.#options = options;
    this.#ground = ground;
    this.#balance = balancerOf(options.balance);
    this.#rule = new RetryRule(options.retry);
    this.#budget = new RetryBudget(ground.now);
    this.#rewriting = new Rewriting(options.rewriting);
    this.#members = options.targets.map((target) => this.#member(target));
    this.#up = this.#members;
    const { check } = options;
    this.#checks = check === null ? [] : this.#startChecks(check);
  }

  refusal(request: InboundRequest, switching: Switching | null): Unanswered | null {
    let first: Unanswered | null = null;
    for (const member of this.#standing(NONE)) {
      // Its checks find out, and nobody's money.
      if (member.isHeldByChecks) continue;
      const refusal = member.engine.refusal(request, switching);
      if (refusal === null) return null;
      first ??= refusal;
    }
    return first ?? this.#down();
  }

  forward(exchange: UpstreamExchange): Promise<Delivery> {
    return this.#run(exchange, forwardTo);
  }

  upgrade(exchange: UpgradeExchange): Promise<Delivery> {
    return this.#run(exchange, upgradeTo);
  }

  async close(signal: AbortSignal): Promise<void> {
    this.#checking.abort();
    const members = this.#members.map((member) => member.close(signal));
    await Promise.all([...this.#checks, ...members]);
  }

  async #run<Carried extends UpstreamExchange | UpgradeExchange>(
    asked: Carried,
    send: Send<Carried>,
  ): Promise<Delivery> {
    const exchange = this.#rewriting.apply(asked);
    if (exchange === null) return this.#outside();
    this.#budget.earn();
    const tried: BackendTarget[] = [];
    let member = this.#choose(exchange);
    for (let attempt = 1; member !== undefined; attempt += 1) {
      tried.push(member);
      const isLast = attempt >= this.#rule.attempts;
      const delivery = await send(
        member.engine,
        isLast ? exchange : this.#declining(exchange, tried),
      );
      member.note(delivery);
      if (isLast || delivery.kind !== "unanswered") return delivery;
      const next = this.#next(exchange, delivery, tried);
      if (next === undefined) return delivery;
      if (next === member) {
        const { time, random } = this.#ground;
        await time.sleep(SAME_TARGET_PAUSE_MS * (1 + random()));
      }
      member = next;
    }
    return this.#down();
  }

  /** Who gets a request first. Now and then it is one that may be well again. */
  #choose(exchange: UpstreamExchange | UpgradeExchange): BackendTarget | undefined {
    if (this.#up.length < this.#members.length && this.#up.length > 0) {
      const isHarmless = this.#rule.maySendTwice(exchange);
      for (const member of this.#members) {
        if (member.state !== "up" && member.mayReturn(isHarmless)) return member;
      }
    }
    return this.#balance(this.#standing(NONE), addressOf(exchange));
  }

  /** The best of those that were not tried: up, or else ejected, or else, because there is no other, down. */
  #standing(tried: readonly BackendTarget[]): readonly BackendTarget[] {
    if (tried.length === 0 && this.#up.length > 0) return this.#up;
    const left = this.#members.filter((member) => !tried.includes(member));
    for (const state of STATES) {
      const standing = left.filter((member) => member.state === state);
      if (standing.length > 0) return standing;
    }
    return NONE;
  }

  /**
   * A status may be declined where the request will be tried again for it: the last one that is asked is
   * heard.
   */
  #declining<Carried extends UpstreamExchange | UpgradeExchange>(
    exchange: Carried,
    tried: readonly BackendTarget[],
  ): Carried {
    const { declined } = this.#rule;
    if (declined === null || !this.#rule.maySendTwice(exchange)) return exchange;
    if (!this.#budget.isLeft) return exchange;
    const isSomebodyLeft =
      this.#up.some((member) => !tried.includes(member)) || tried.at(-1)?.state === "up";
    return isSomebodyLeft ? { ...exchange, declined } : exchange;
  }

  /** Where a request is tried again, for what that costs; undefined: nowhere. */
  #next(
    exchange: UpstreamExchange | UpgradeExchange,
    delivery: Unanswered,
    tried: readonly BackendTarget[],
  ): BackendTarget | undefined {
    const reason = this.#rule.reasonFor(exchange, delivery);
    if (reason === null) return undefined;
    const other = this.#balance(this.#standing(tried), addressOf(exchange));
    const next = other ?? sameAgain(delivery, tried);
    if (next === undefined) return undefined;
    const { targets } = this.#ground.telemetry.metrics;
    // One that is up and has seen nothing of it yet: this is no more than its share.
    const isFree = !delivery.sent && other?.state === "up";
    if (!isFree && !this.#budget.isLeft) {
      targets.retried(this.#options.name, "no-budget");
      return undefined;
    }
    if (!isFree) this.#budget.spend();
    targets.retried(this.#options.name, reason);
    return next;
  }

  #member({ origin, weight }: BackendOptions["targets"][number]): BackendTarget {
    const { telemetry, open, now } = this.#ground;
    const { name: upstream, target, check } = this.#options;
    const engine = open({ ...target, origin });
    const name = new URL(origin).host;
    const member: BackendTarget = new BackendTarget({
      upstream,
      name,
      weight,
      engine,
      meter: telemetry.metrics.targets.target(upstream, name, () => ({
        isUp: member.state === "up",
        active: engine.active,
      })),
      logger: telemetry.logger,
      check: check ?? UNCHECKED,
      now,
      mayEject: () => this.#mayEject(),
      onChange: () => {
        this.#up = this.#members.filter((each) => each.state === "up");
      },
    });
    return member;
  }

  /** For bad answers alone at most half of the targets are left alone: the others get all of their load. */
  #mayEject(): boolean {
    const out = this.#members.length - this.#up.length;
    return (out + 1) * 2 <= this.#members.length;
  }

  #startChecks(options: HealthCheckOptions): readonly Promise<void>[] {
    const { time, random } = this.#ground;
    const { target, targets, rewriting } = this.#options;
    const host = rewriting.host.kind === "name" ? rewriting.host.name : null;
    const { signal } = this.#checking;
    return this.#members.map((member, index) => {
      const origin = targets[index]?.origin ?? "";
      const probe = probeOf({ ...target, origin }, options.path, host);
      const report = (finding: HealthFinding): void => member.check(finding);
      return check({ options, probe, report, time, random, signal });
    });
  }

  #down(): Unanswered {
    const detail = `No target of ${this.#options.name} is up.`;
    const said = { kind: "unanswered", status: 503, reason: "down", detail } as const;
    return { ...said, sent: false, retriable: true };
  }

  /** Its route would not have been accepted (`config/upstream/upstream-paths.ts`). */
  #outside(): Unanswered {
    const detail = `The path is outside of what ${this.#options.name} strips.`;
    const said = { kind: "unanswered", status: 502, reason: "malformed", detail } as const;
    return { ...said, sent: false, retriable: false };
  }
}

const NONE: readonly BackendTarget[] = [];
const STATES: readonly MemberState[] = ["up", "ejected", "down"];

/** The last one once more, unless that is known to be in vain, or has cost all of its time already. */
function sameAgain(
  { reason, status }: Unanswered,
  tried: readonly BackendTarget[],
): BackendTarget | undefined {
  const same = tried.at(-1);
  const isInVain = reason === "saturated" || (reason === "connect" && status === 504);
  return same === undefined || isInVain || same.state !== "up" ? undefined : same;
}

function addressOf({ client }: UpstreamExchange | UpgradeExchange): string {
  return client.address;
}
