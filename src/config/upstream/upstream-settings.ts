/** One entry of `upstreams`: its defaults, and what its parts have to say to each other. */
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import { Secret } from "../facilitator/secret.ts";
import type { HealthCheck, RetrySettings, Upstream, UpstreamTarget } from "../settings.ts";
import type { Path } from "../reading/tree.ts";
import { crossingNameFault, resolveAllowed } from "./upstream-headers.ts";
import type { WrittenUpstream } from "./upstream-shape.ts";
import { resolveTls } from "./upstream-tls.ts";

const CONNECT_TIMEOUT_MS = 2_000;
const RESPONSE_TIMEOUT_MS = 30_000;
const IDLE_TIMEOUT_MS = 60_000;

const CHECK = { interval: 10_000, timeout: 2_000, up: 2, down: 3 };
/** How often a target may be checked, milliseconds: a check is a connection. */
const LEAST_INTERVAL_MS = 100;
const MOST_INTERVAL_MS = 3_600_000;

/** Once more where that can do no harm: nothing was sent, or nothing happens twice. */
const RETRY: RetrySettings = {
  attempts: 2,
  methods: ["GET", "HEAD", "OPTIONS"],
  on: ["connect-failure", "connection-lost"],
};

/** Each of them is looked at for each request. */
const MAX_TARGETS = 100;

export function resolveUpstream(
  name: string,
  written: WrittenUpstream,
  context: Context,
): Upstream {
  const path = ["upstreams", name];
  const { timeouts = {}, path: paths = {} } = written;
  const targets = resolveTargets(written, path, context);
  requireTls(written, path, context);
  return {
    name,
    targets,
    balance: written.balance ?? "round-robin",
    health: resolveHealth(written.health, [...path, "health"], context),
    connectTimeoutMs: timeouts.connect ?? CONNECT_TIMEOUT_MS,
    responseTimeoutMs: timeouts.response ?? RESPONSE_TIMEOUT_MS,
    idleTimeoutMs: timeouts.idle ?? IDLE_TIMEOUT_MS,
    retry: resolveRetry(written.retry),
    tls: resolveTls(written.tls, [...path, "tls"], context),
    protocol: written.protocol ?? "h1",
    host: written.host ?? { kind: "upstream" },
    path: { strip: paths.strip ?? "", prefix: paths.prefix ?? "" },
    headers: resolveHeaders(written.headers, [...path, "headers"], context),
  };
}

function resolveTargets(
  { targets }: WrittenUpstream,
  upstream: Path,
  { tree, problems }: Context,
): readonly UpstreamTarget[] {
  const path = [...upstream, "targets"];
  const resolved = targets.map((each) =>
    typeof each === "string"
      ? { url: each, weight: 1 }
      : { url: each.url, weight: each.weight ?? 1 },
  );
  if (resolved.length === 0 && tree.intact(path)) {
    problems.error(path, fault("bad-value", "must have at least one target"));
  }
  if (resolved.length > MAX_TARGETS) {
    problems.error(path, fault("bad-value", `must have at most ${MAX_TARGETS} targets`));
  }
  for (const [index, { url }] of resolved.entries()) {
    if (resolved.findIndex((each) => each.url === url) === index) continue;
    const message = "this is the same target as an earlier one";
    const hint = "give the earlier one more weight";
    problems.error([...path, index], fault("duplicate-entry", message, hint));
  }
  return resolved;
}

/** What means nothing without TLS would be believed to protect something. */
function requireTls(
  { targets, tls, protocol }: WrittenUpstream,
  upstream: Path,
  { problems }: Context,
): void {
  const index = targets.findIndex((each) =>
    (typeof each === "string" ? each : each.url).startsWith("http:"),
  );
  if (index === -1) return;
  const hint = `write https:// in targets[${index}]`;
  if (tls !== undefined) {
    const message = "has no meaning for a target that is reached over http";
    problems.errorAtKey([...upstream, "tls"], fault("unused-key", message, hint));
  }
  if (protocol === "h2") {
    const message = "must be h1 for a target that is reached over http";
    problems.error([...upstream, "protocol"], fault("bad-value", message, hint));
  }
}

function resolveHealth(
  written: WrittenUpstream["health"],
  path: Path,
  { problems }: Context,
): HealthCheck | null {
  if (written === undefined) return null;
  const { interval, up, down } = { ...CHECK, ...written };
  const timeout = written.timeout ?? Math.min(CHECK.timeout, interval);
  if (interval < LEAST_INTERVAL_MS || interval > MOST_INTERVAL_MS) {
    problems.error([...path, "interval"], fault("bad-value", "must be from 100ms to 1h"));
  } else if (timeout === 0 || timeout > interval) {
    const message = "must be more than 0s and at most the interval";
    problems.error([...path, "timeout"], fault("bad-value", message));
  }
  return { path: written.path, intervalMs: interval, timeoutMs: timeout, up, down };
}

function resolveRetry(written: WrittenUpstream["retry"]): RetrySettings {
  return { ...RETRY, ...written };
}

function resolveHeaders(
  { set = {}, remove = [], allow }: NonNullable<WrittenUpstream["headers"]> = {},
  path: Path,
  context: Context,
): Upstream["headers"] {
  const { problems } = context;
  const removed = remove.map((name) => name.toLowerCase());
  const seen = new Set<string>();
  for (const name of Object.keys(set)) {
    const at = [...path, "set", name];
    const lower = name.toLowerCase();
    const found = crossingNameFault(lower, "set");
    if (found !== undefined) problems.errorAtKey(at, found);
    if (seen.has(lower)) {
      problems.errorAtKey(at, fault("duplicate-entry", "this header is set twice"));
    }
    if (removed.includes(lower)) {
      const message = "is set here and removed below: what is set replaces the client's";
      problems.errorAtKey(at, fault("duplicate-entry", message, "leave it out of remove"));
    }
    seen.add(lower);
  }
  for (const [index, name] of removed.entries()) {
    const found = crossingNameFault(name, "remove");
    if (found !== undefined) problems.error([...path, "remove", index], found);
  }
  return {
    set: Object.entries(set).map(([name, value]) => ({ name, value: new Secret(value) })),
    remove: removed,
    allow: resolveAllowed(allow, [...path, "allow"], context),
  };
}
