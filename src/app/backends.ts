/** Configured upstreams -> the engines that requests are forwarded to. */
import type { Config, Upstream } from "../config/config.ts";
import { openBackend, type BackendOptions } from "../gateway/backend/backend.ts";
import { defaultUpstreamOptions, type Engine, type TargetOptions } from "../gateway/upstream.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { systemTime } from "../time/time.ts";

interface Ground {
  readonly telemetry: Telemetry;
  /** Open connections to one target at most. */
  readonly connections: number;
  /** Switched connections to one target at most. */
  readonly tunnels: number;
}

/** One for each upstream, by name. Health checks begin at once. */
export function openBackends(
  { upstreams, limits }: Pick<Config, "upstreams" | "limits">,
  { telemetry, connections, tunnels }: Ground,
): ReadonlyMap<string, Engine> {
  const ground = { telemetry, time: systemTime };
  return new Map(
    upstreams.map((upstream) => {
      const { bodyBytes: bodyLimitBytes, answerIdleMs, tunnelIdleMs, tunnelLifeMs } = limits;
      const tunnelLimits = { upgrades: tunnels, tunnelIdleMs, tunnelLifeMs };
      const shared = { bodyLimitBytes, answerIdleMs, connections, ...tunnelLimits };
      const target = { ...targetOptions(upstream), ...shared };
      return [upstream.name, openBackend(backendOptions(upstream, target), ground)];
    }),
  );
}

function backendOptions(upstream: Upstream, target: BackendOptions["target"]): BackendOptions {
  const { name, targets, balance, health, retry, path, host, headers } = upstream;
  return {
    name,
    targets: targets.map(({ url, weight }) => ({ origin: url, weight })),
    target,
    balance,
    check: health,
    retry,
    rewriting: {
      path,
      host,
      set: headers.set.flatMap((each) => [each.name, each.value.reveal()]),
      remove: headers.remove,
    },
  };
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
