/** One entry of `upstreams`: a group of targets, how requests get to them, and what its parts have to say to each other. */
import { z } from "zod";
import { ok, type Result } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import type { Fault } from "../reading/problem.ts";
import { ORIGIN } from "../reading/forms.ts";
import { bad, fault, readMethod, readOrigin, readWord } from "../reading/reading.ts";
import { readFixedPath } from "../routes/route-key.ts";
import { command, resolveCommand, type CommandUpstream } from "./command.ts";
import { headers, resolveHeaders, type HeaderRules } from "./upstream-headers.ts";
import { resolveTls, tls, type UpstreamTls } from "./upstream-tls.ts";
import {
  derived,
  described,
  duration,
  HOST_NAME,
  listOf,
  map,
  matching,
  optional,
  reader,
  section,
  text,
  textLike,
  whole,
  word,
} from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

/** A backend: a group of targets that serve the same, or a command. */
export interface Upstream {
  readonly name: string;
  /** At least one, all different; none of a command. */
  readonly targets: readonly UpstreamTarget[];
  /** What is started in place of targets; null: nothing. */
  readonly command: CommandUpstream | null;
  readonly balance: BalanceSettings;
  /** Null: nobody asks but the requests themselves. */
  readonly health: HealthCheck | null;
  readonly connectTimeoutMs: number;
  /** From the last byte of the request to the head of the response. */
  readonly responseTimeoutMs: number;
  /** Longest silence between two parts of a body. */
  readonly idleTimeoutMs: number;
  readonly retry: RetrySettings;
  /** For `https` targets. */
  readonly tls: UpstreamTls;
  readonly protocol: Protocol;
  readonly host: HostRuleSetting;
  /**
   * How the path changes on its way: what it begins with is taken off, then put before what is left. Both
   * are canonical, without a slash at the end; "" changes nothing. Every route of the upstream begins with
   * `strip`.
   */
  readonly path: { readonly strip: string; readonly prefix: string };
  readonly headers: HeaderRules;
}

export interface UpstreamTarget {
  /** Origin without path or trailing slash: `http://127.0.0.1:3000`. */
  readonly url: string;
  /** 1 or more; its share is that of all weights. */
  readonly weight: number;
}

/** How a target is chosen: in turn, by what it has to do, or by the client's address. */
const BALANCES = ["round-robin", "least-requests", "hash(ip)"] as const;

export type BalanceSettings = (typeof BALANCES)[number];

/** What is spoken with a target; `h2` over TLS only. */
const PROTOCOLS = ["h1", "h2"] as const;

export type Protocol = (typeof PROTOCOLS)[number];

/** `GET path` of each target, again and again: 2xx and 3xx are healthy. */
export interface HealthCheck {
  readonly path: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Good checks in a row until a target that was down is up. */
  readonly up: number;
  /** Bad checks in a row until it is down. */
  readonly down: number;
}

/**
 * Why a request is tried again: nothing of it was sent; its connection was lost without an answer; or the
 * answer has, or would have, that status.
 */
const RETRY_REASONS = ["connect-failure", "connection-lost", "502", "503", "504"] as const;

export type RetryReasonSetting = (typeof RETRY_REASONS)[number];

export interface RetrySettings {
  /** All together, the first one included: 1 is none again. */
  readonly attempts: number;
  /** What of them may be sent twice, unpaid; a request of which nothing was sent has no need to be here. */
  readonly methods: readonly string[];
  readonly on: readonly RetryReasonSetting[];
}

/** What `Host` says: the target's own name, what the client wrote, or a name. */
export type HostRuleSetting =
  | { readonly kind: "upstream" }
  | { readonly kind: "preserve" }
  | { readonly kind: "name"; readonly name: string };

/** Each of them is looked at for each request. */
const MAX_TARGETS = 100;
/** Of a target; only the proportions count. */
const MAX_WEIGHT = 1000;
/** Requests that may be made of one: more would only wait longer for the same answer. */
const MAX_ATTEMPTS = 5;
/** Checks in a row after which a target changes its state. */
const MAX_CHECKS = 100;
/** How often a target may be checked, milliseconds: a check is a connection. */
const LEAST_INTERVAL_MS = 100;
const MOST_INTERVAL_MS = 3_600_000;
/** Of a check, where its interval is not shorter. */
const CHECK_TIMEOUT = "2s";

const HOST = new RegExp(`^(?:${HOST_NAME}|\\[[0-9A-Fa-f:.]+\\])(?::[0-9]{1,5})?$`);
const HOST_FORM = "must be upstream, preserve or a host name";

const origin = text(readOrigin, ORIGIN);

const targetMap = map({
  url: described(origin, "Scheme, host and port, without a path."),
  weight: optional(whole(1, MAX_WEIGHT), "Its share of the requests, beside the others'.", 1),
});

const target = z.union(
  [
    origin.transform((url): UpstreamTarget => {
      return { url, weight: targetMap.shape.weight.parse(undefined) };
    }),
    targetMap,
  ],
  "must be a URL or { url, weight }",
);

const reasons = RETRY_REASONS.join(", ");
/** `502` is a number in YAML. */
const reason = reader(
  z.union([z.string(), z.number()], `must be one of ${reasons}`),
  (written) => readWord(RETRY_REASONS)(String(written)),
  {
    anyOf: [
      { enum: RETRY_REASONS.map((each) => (/^[0-9]+$/.test(each) ? Number(each) : each)) },
      matching(/^50[234]$/, `must be one of ${reasons}`),
    ],
  },
);

const fixedPath = text(readFixedPath, matching(/^\//, "must be a path that begins with /", "/v1"));

const health = map({
  // Sent to the target as it is: a path of its own, with a query where it wants one.
  path: described(
    textLike(
      /^\/[!-"$-[\]-~]{0,1023}$/,
      "must be a path that begins with /, in printable ASCII without #",
      "/healthz",
    ),
    "What is asked for; 2xx and 3xx are good.",
  ),
  interval: optional(duration, "From one check to the next, from 100ms to 1h.", "10s"),
  timeout: derived(
    duration,
    "Longest that an answer may take, at most the interval.",
    CHECK_TIMEOUT,
  ),
  up: optional(whole(1, MAX_CHECKS), "Good checks in a row until a target that was down is up.", 2),
  down: optional(whole(1, MAX_CHECKS), "Bad checks in a row until it is down.", 3),
});

const timeouts = map({
  connect: optional(duration, "Longest that a connection may take to open.", "2s"),
  response: optional(duration, "From the end of a request to the head of its response.", "30s"),
  idle: optional(duration, "Longest silence between two parts of a body.", "60s"),
});

/** Once more where that can do no harm: nothing was sent, or nothing happens twice. */
const retry = map({
  attempts: optional(
    whole(1, MAX_ATTEMPTS),
    "All together, the first one included: 1 is none again.",
    2,
  ),
  methods: optional(
    listOf(text(readMethod, matching(/^[A-Z-]+$/, "must be a method", "GET", "HEAD", "OPTIONS"))),
    "What may be sent twice. What is paid for never is.",
    ["GET", "HEAD", "OPTIONS"],
  ),
  on: optional(listOf(reason), "Why a request is tried again.", [
    "connect-failure",
    "connection-lost",
  ]),
});

export const upstream = map({
  targets: optional(
    listOf(target),
    "Servers that serve the same: URLs without a path, or { url, weight }.",
  ),
  command: optional(
    command,
    "In place of targets: a server of MCP that reads and writes by its standard streams, [node, server.js]; one process for each session.",
  ),
  balance: optional(
    word(BALANCES),
    "How a target is chosen; with hash(ip) a client stays with its target.",
    "round-robin",
  ),
  health: optional(
    health,
    "Asks every target again and again whether it is well. Without it: nobody does.",
  ),
  timeouts: section(timeouts, "How long the targets are waited for."),
  retry: section(retry, "When a request is tried again, elsewhere first."),
  tls: optional(tls, "For https targets: whom to trust, and who we are."),
  protocol: optional(
    word(PROTOCOLS),
    "What is spoken with https targets; h2 where they offer it, else HTTP/1.1.",
    "h1",
  ),
  host: optional(
    text(readHost, {
      anyOf: [{ enum: ["upstream", "preserve"] }, matching(HOST, HOST_FORM, "backend.example.com")],
    }),
    "What `Host` says: the target's own name, what the client wrote (preserve), or a name.",
    "upstream",
  ),
  path: section(
    map({
      strip: optional(fixedPath, "What is taken off the beginning of every path."),
      prefix: optional(fixedPath, "What is put before what is left."),
    }),
    "How the path changes on its way: { strip: /v1, prefix: /internal } sends /v1/x as /internal/x.",
  ),
  headers: section(headers, "Header fields that are set or removed on the way."),
});

type WrittenUpstream = z.output<typeof upstream>;

function readHost(host: string): Result<HostRuleSetting, Fault> {
  if (host === "upstream" || host === "preserve") return ok({ kind: host });
  if (HOST.test(host)) return ok({ kind: "name", name: host });
  return bad(HOST_FORM);
}

/** What says something of targets, or of HTTP on its way to them. */
const OF_TARGETS = [
  "targets",
  "balance",
  "health",
  "retry",
  "tls",
  "protocol",
  "host",
  "path",
  "headers",
] as const;

/** @param path of the file: of an entry of `upstreams`, or `upstream` itself */
export function resolveUpstream(
  name: string,
  written: WrittenUpstream,
  { path, context }: { readonly path: Path; readonly context: Context },
): Upstream {
  const { targets = [], balance, timeouts, retry, protocol, host } = written;
  const { strip = "", prefix = "" } = written.path;
  if (written.command !== undefined) refuseBesideCommand(path, context);
  else if (written.targets === undefined && context.tree.intact(path)) {
    const hint = "give targets: [http://…], or command: [node, server.js]";
    context.problems.errorAtKey(path, fault("missing-key", "needs targets", hint));
  } else if (written.targets !== undefined) checkTargets(targets, [...path, "targets"], context);
  requireTls({ ...written, targets }, path, context);
  return {
    name,
    targets,
    command:
      written.command === undefined
        ? null
        : resolveCommand(written.command, [...path, "command"], context),
    balance,
    health: resolveHealth(written.health, [...path, "health"], context),
    connectTimeoutMs: timeouts.connect,
    responseTimeoutMs: timeouts.response,
    idleTimeoutMs: timeouts.idle,
    retry,
    tls: resolveTls(written.tls, [...path, "tls"], context),
    protocol,
    host,
    path: { strip, prefix },
    headers: resolveHeaders(written.headers, [...path, "headers"], context),
  };
}

/** What would be believed to do something, and does nothing for a process. */
function refuseBesideCommand(path: Path, { tree, problems }: Context): void {
  for (const key of OF_TARGETS) {
    if (!tree.has([...path, key])) continue;
    const message = "has no meaning for a command, which is no server of HTTP";
    problems.errorAtKey([...path, key], fault("unused-key", message, "leave it out"));
  }
}

function checkTargets(
  targets: readonly UpstreamTarget[],
  path: Path,
  { tree, problems }: Context,
): void {
  if (targets.length === 0 && tree.intact(path)) {
    problems.error(path, fault("bad-value", "must have at least one target"));
  }
  if (targets.length > MAX_TARGETS) {
    problems.error(path, fault("bad-value", `must have at most ${MAX_TARGETS} targets`));
  }
  for (const [index, { url }] of targets.entries()) {
    if (targets.findIndex((each) => each.url === url) === index) continue;
    const message = "this is the same target as an earlier one";
    const hint = "give the earlier one more weight";
    problems.error([...path, index], fault("duplicate-entry", message, hint));
  }
}

/** What means nothing without TLS would be believed to protect something. */
function requireTls(
  { targets, tls, protocol }: WrittenUpstream & Pick<Upstream, "targets">,
  upstream: Path,
  { problems }: Context,
): void {
  const index = targets.findIndex(({ url }) => url.startsWith("http:"));
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
  const { interval, up, down } = written;
  const timeout = written.timeout ?? Math.min(duration.parse(CHECK_TIMEOUT), interval);
  if (interval < LEAST_INTERVAL_MS || interval > MOST_INTERVAL_MS) {
    problems.error([...path, "interval"], fault("bad-value", "must be from 100ms to 1h"));
  } else if (timeout === 0 || timeout > interval) {
    const message = "must be more than 0s and at most the interval";
    problems.error([...path, "timeout"], fault("bad-value", message));
  }
  return { path: written.path, intervalMs: interval, timeoutMs: timeout, up, down };
}
