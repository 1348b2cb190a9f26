/** The shape of one entry of `upstreams`: a group of targets, and how requests get to them. */
import { z } from "zod";
import { ok, type Result } from "../x402/result.ts";
import type { Fault } from "./problem.ts";
import { bad, readMethod, readOrigin, readWord } from "./reading.ts";
import { readFixedPath } from "./route-key.ts";
import { BALANCES, PROTOCOLS, RETRY_REASONS, type HostRule } from "./settings.ts";
import {
  duration,
  headerName,
  headerValue,
  listOf,
  map,
  plainText,
  reader,
  text,
  whole,
} from "./shapes.ts";

/** Of a target; only the proportions count. */
const MAX_WEIGHT = 1000;
/** Requests that may be made of one: more would only wait longer for the same answer. */
const MAX_ATTEMPTS = 5;
/** Checks in a row after which a target changes its state. */
const MAX_CHECKS = 100;

const target = z.union(
  [text(readOrigin), map({ url: text(readOrigin), weight: whole(1, MAX_WEIGHT).exactOptional() })],
  "must be a URL or { url, weight }",
);

const reasons = RETRY_REASONS.join(", ");
/** `502` is a number in YAML. */
const reason = reader(z.union([z.string(), z.number()], `must be one of ${reasons}`), (written) =>
  readWord(RETRY_REASONS)(String(written)),
);

const fixedPath = text(readFixedPath);

export const upstream = map({
  targets: listOf(target),
  balance: text(readWord(BALANCES)).exactOptional(),
  health: map({
    path: text(readCheckPath),
    interval: duration.exactOptional(),
    timeout: duration.exactOptional(),
    up: whole(1, MAX_CHECKS).exactOptional(),
    down: whole(1, MAX_CHECKS).exactOptional(),
  }).exactOptional(),
  timeouts: map({
    connect: duration.exactOptional(),
    response: duration.exactOptional(),
    idle: duration.exactOptional(),
  }).exactOptional(),
  retry: map({
    attempts: whole(1, MAX_ATTEMPTS).exactOptional(),
    methods: listOf(text(readMethod)).exactOptional(),
    on: listOf(reason).exactOptional(),
  }).exactOptional(),
  tls: map({
    ca: plainText.exactOptional(),
    serverName: text(readServerName).exactOptional(),
    cert: plainText.exactOptional(),
    key: plainText.exactOptional(),
  }).exactOptional(),
  protocol: text(readWord(PROTOCOLS)).exactOptional(),
  host: text(readHost).exactOptional(),
  path: map({
    strip: fixedPath.exactOptional(),
    prefix: fixedPath.exactOptional(),
  }).exactOptional(),
  headers: map({
    set: z.record(headerName, headerValue, "must be a map").exactOptional(),
    remove: listOf(text(readHeaderName)).exactOptional(),
  }).exactOptional(),
});

export type WrittenUpstream = z.output<typeof upstream>;

const NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";
const SERVER_NAME = new RegExp(`^${NAME}$`);
const HOST = new RegExp(`^(?:${NAME}|\\[[0-9A-Fa-f:.]+\\])(?::[0-9]{1,5})?$`);

function readServerName(name: string): Result<string, Fault> {
  return SERVER_NAME.test(name) ? ok(name) : bad("must be a host name, without a port");
}

function readHost(host: string): Result<HostRule, Fault> {
  if (host === "upstream" || host === "preserve") return ok({ kind: host });
  if (HOST.test(host)) return ok({ kind: "name", name: host });
  return bad("must be upstream, preserve or a host name");
}

/** Sent to the target as it is: a path of its own, with a query where it wants one. */
function readCheckPath(path: string): Result<string, Fault> {
  return /^\/[!-"$-[\]-~]{0,1023}$/.test(path)
    ? ok(path)
    : bad("must be a path that begins with /, in printable ASCII without #");
}

function readHeaderName(name: string): Result<string, Fault> {
  return headerName.safeParse(name).success ? ok(name) : bad("is not the name of a header");
}
