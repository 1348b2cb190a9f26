/** What is counted for the commands that are backends. The label is a name of the configuration: an upstream. */
import { Counter, Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

/**
 * How a process has ended: `ended` by the gateway or its client, `crashed` by itself after it had answered something,
 * `failed` by itself before.
 */
const ENDS = ["ended", "crashed", "failed"] as const;
export type CommandEnd = (typeof ENDS)[number];

/** Why somebody got no process: `client`: he has his share, `full`: all are taken, `failing`: it ends as soon as it is started. */
const REFUSALS = ["client", "full", "failing"] as const;
export type CommandRefusal = (typeof REFUSALS)[number];

export interface CommandMeter {
  begun(): void;
  ended(how: CommandEnd): void;
  refused(reason: CommandRefusal): void;
  /** Nobody reads the command any more, unless somebody has begun to meanwhile. */
  retire(): void;
}

/** Asked at each scrape. */
interface CommandReading {
  /** Processes that live, those that are ending among them. */
  readonly processes: number;
  readonly limit: number;
}

export class CommandMeters {
  readonly #readings = new Map<string, () => CommandReading>();
  readonly #starts: Counter;
  readonly #ends: Counter;
  readonly #refusals: Counter;

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    const gauge = (name: string, help: string, member: keyof CommandReading): void => {
      const made: Gauge = new Gauge({
        name,
        help,
        labelNames: ["upstream"],
        registers,
        collect: () => {
          made.reset();
          for (const [upstream, read] of this.#readings) made.set({ upstream }, read()[member]);
        },
      });
    };
    gauge(
      "coinslot_command_processes",
      "Processes of the command that live, those that are ending among them",
      "processes",
    );
    gauge("coinslot_command_processes_limit", "How many of them there may be", "limit");
    this.#starts = new Counter({
      name: "coinslot_command_starts_total",
      help: "Processes of the command that were started",
      labelNames: ["upstream"],
      registers,
    });
    this.#ends = new Counter({
      name: "coinslot_command_ends_total",
      help: "How they have ended (ended: by the gateway or its client, crashed: by themselves, failed: by themselves before they answered anything)",
      labelNames: ["upstream", "result"],
      registers,
    });
    this.#refusals = new Counter({
      name: "coinslot_command_refusals_total",
      help: "Who was refused a process, by reason (client: he has his share, full: all are taken, failing: it ends as soon as it is started)",
      labelNames: ["upstream", "reason"],
      registers,
    });
  }

  /** One at a time for each command; the later reader counts. */
  command(upstream: string, read: () => CommandReading): CommandMeter {
    this.#readings.set(upstream, read);
    // From 0 on: what appears with its first count looks like no change.
    this.#starts.inc({ upstream }, 0);
    for (const result of ENDS) this.#ends.inc({ upstream, result }, 0);
    for (const reason of REFUSALS) this.#refusals.inc({ upstream, reason }, 0);
    return {
      begun: () => this.#starts.inc({ upstream }),
      ended: (result) => this.#ends.inc({ upstream, result }),
      refused: (reason) => this.#refusals.inc({ upstream, reason }),
      retire: () => {
        if (this.#readings.get(upstream) === read) this.#readings.delete(upstream);
      },
    };
  }
}
