/** Configured upstreams -> the engines that requests are forwarded to. */
import { isDeepStrictEqual } from "node:util";
import type { Config, Upstream } from "../config/config.ts";
import { openBackend, type BackendOptions } from "../gateway/upstream/backend/backend.ts";
import {
  defaultUpstreamOptions,
  type Engine,
  type TargetOptions,
} from "../gateway/upstream/upstream.ts";
import { socketOf } from "../stdio/commands.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { systemTime } from "../time/time.ts";
import { placesOfEach } from "./places.ts";

interface Ground {
  readonly telemetry: Telemetry;
  /** How many processes share the limits. */
  readonly fronts: number;
  /** Where commands are asked. */
  readonly commands: string;
}

/** What an engine was opened with. */
interface Opened {
  readonly options: BackendOptions;
  readonly engine: Engine;
}

/**
 * The engines of one configuration after the other. One whose options have not changed is kept, with its
 * connections and with what it knows of its targets.
 */
export class Backends {
  readonly #ground: Ground;
  #opened: ReadonlyMap<string, Opened> = new Map();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** By the names of the upstreams. */
  get engines(): ReadonlyMap<string, Engine> {
    return new Map([...this.#opened].map(([name, { engine }]) => [name, engine]));
  }

  /**
   * Opens what is new; health checks begin at once. Returns the engines that are not in use any more, to be
   * closed when the requests that may ask them have ended.
   */
  configure(config: Pick<Config, "upstreams" | "limits">): readonly Engine[] {
    const { telemetry, fronts } = this.#ground;
    const ground = { telemetry, time: systemTime };
    const before = this.#opened;
    this.#opened = new Map(
      config.upstreams.map((upstream) => {
        const {
          bodyBytes: bodyLimitBytes,
          answerIdleMs,
          tunnelIdleMs,
          tunnelLifeMs,
        } = config.limits;
        const upgrades = Math.ceil(config.limits.tunnels / fronts);
        // Twice as many as places: those whose clients had to make room, all of them together, end a moment later.
        const connections = 2 * placesOfEach(config.limits.inFlight, fronts);
        const tunnelLimits = { upgrades, tunnelIdleMs, tunnelLifeMs };
        const shared = { bodyLimitBytes, answerIdleMs, connections, ...tunnelLimits };
        const { name, balance, health, retry, path, host, headers, command } = upstream;
        const at =
          command === null
            ? { targets: upstream.targets, told: {} }
            : atCommand(name, this.#ground.commands);
        const options: BackendOptions = {
          name,
          targets: at.targets.map(({ url, weight }) => ({ origin: url, weight })),
          target: { ...targetOptions(upstream), ...shared, ...at.told },
          balance,
          check: health,
          retry,
          rewriting: {
            path,
            host,
            set: headers.set.flatMap((each) => [each.name, each.value.reveal()]),
            remove: headers.remove,
            allow: headers.allow,
          },
        };
        const known = before.get(upstream.name);
        const isSame = known !== undefined && isDeepStrictEqual(known.options, options);
        const opened = isSame ? known : { options, engine: openBackend(options, ground) };
        return [upstream.name, opened];
      }),
    );
    const kept = new Set([...this.#opened.values()].map(({ engine }) => engine));
    return [...before.values()].map(({ engine }) => engine).filter((engine) => !kept.has(engine));
  }
}

/** The one target of a command, which switches no connections. */
function atCommand(name: string, folder: string) {
  const targets: Upstream["targets"] = [{ url: `http://${name}.command`, weight: 1 }];
  return { targets, told: { socketPath: socketOf(folder, name), upgrades: 0 } };
}

function targetOptions(upstream: Upstream): Omit<TargetOptions, "origin"> {
  const { connectTimeoutMs, responseTimeoutMs, idleTimeoutMs, protocol, tls } = upstream;
  return {
    ...defaultUpstreamOptions,
    connectTimeoutMs,
    responseTimeoutMs,
    idleTimeoutMs,
    protocol: protocol === "h2" ? "h2" : "http1",
    tls: {
      ca: tls.ca ?? undefined,
      serverName: tls.serverName ?? undefined,
      cert: tls.cert ?? undefined,
      key: tls.key?.reveal(),
    },
  };
}
