/** The shape of one entry of `upstreams`: a group of targets, and how requests get to them. */
import { z } from "zod";
import { ok, type Result } from "../../x402/result.ts";
import type { Fault } from "../reading/problem.ts";
import { ORIGIN } from "../reading/forms.ts";
import { bad, readMethod, readOrigin, readWord } from "../reading/reading.ts";
import { readFixedPath } from "../routes/route-key.ts";
import { BALANCES, PROTOCOLS, RETRY_REASONS, type HostRuleSetting } from "../settings.ts";
import { allowedNames } from "./upstream-headers.ts";
import {
  described,
  duration,
  HEADER_NAME,
  HEADER_NAME_FORM,
  headerName,
  headerValue,
  listOf,
  map,
  matching,
  optional,
  plainText,
  reader,
  text,
  whole,
  word,
} from "../reading/shapes.ts";

/** Of a target; only the proportions count. */
const MAX_WEIGHT = 1000;
/** Requests that may be made of one: more would only wait longer for the same answer. */
const MAX_ATTEMPTS = 5;
/** Checks in a row after which a target changes its state. */
const MAX_CHECKS = 100;

const NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";
const SERVER_NAME = new RegExp(`^${NAME}$`);
const SERVER_NAME_FORM = "must be a host name, without a port";
const HOST = new RegExp(`^(?:${NAME}|\\[[0-9A-Fa-f:.]+\\])(?::[0-9]{1,5})?$`);
const HOST_FORM = "must be upstream, preserve or a host name";
const CHECK_PATH = /^\/[!-"$-[\]-~]{0,1023}$/;
const CHECK_PATH_FORM = "must be a path that begins with /, in printable ASCII without #";

const origin = text(readOrigin, ORIGIN);

const target = z.union(
  [
    origin,
    map({
      url: described(origin, "Scheme, host and port, without a path."),
      weight: optional(whole(1, MAX_WEIGHT), "Its share of the requests, beside the others'.", 1),
    }),
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
  path: described(
    text(readCheckPath, matching(CHECK_PATH, CHECK_PATH_FORM, "/healthz")),
    "What is asked for; 2xx and 3xx are good.",
  ),
  interval: optional(duration, "From one check to the next, from 100ms to 1h.", "10s"),
  timeout: optional(duration, "Longest that an answer may take, at most the interval.", "2s"),
  up: optional(whole(1, MAX_CHECKS), "Good checks in a row until a target that was down is up.", 2),
  down: optional(whole(1, MAX_CHECKS), "Bad checks in a row until it is down.", 3),
});

const timeouts = map({
  connect: optional(duration, "Longest that a connection may take to open.", "2s"),
  response: optional(duration, "From the end of a request to the head of its response.", "30s"),
  idle: optional(duration, "Longest silence between two parts of a body.", "60s"),
});

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

const tls = map({
  ca: optional(
    plainText,
    "File in PEM: who signed the targets' certificates, in place of whom the system trusts.",
  ),
  serverName: optional(
    text(readServerName, matching(SERVER_NAME, SERVER_NAME_FORM)),
    "The name in their certificate, where it is not that of the URL.",
  ),
  cert: optional(plainText, "File in PEM: our own certificate; `key` belongs to it."),
  key: optional(plainText, "File in PEM: the private key of `cert`."),
});

export const upstream = map({
  targets: described(
    listOf(target),
    "Servers that serve the same: URLs without a path, or { url, weight }.",
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
  timeouts: optional(timeouts, "How long the targets are waited for."),
  retry: optional(retry, "When a request is tried again, elsewhere first."),
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
  path: optional(
    map({
      strip: optional(fixedPath, "What is taken off the beginning of every path."),
      prefix: optional(fixedPath, "What is put before what is left."),
    }),
    "How the path changes on its way: { strip: /v1, prefix: /internal } sends /v1/x as /internal/x.",
  ),
  headers: optional(
    map({
      set: optional(
        z.record(headerName, headerValue, "must be a map"),
        "For the backend, in place of the client's of the same name.",
      ),
      remove: optional(
        listOf(text(readHeaderName, matching(HEADER_NAME, HEADER_NAME_FORM))),
        "What crosses neither to the backend nor back to the client.",
      ),
      allow: optional(
        allowedNames,
        "What of the client's crosses to the backend beside what HTTP needs, in place of `headers.allow`.",
      ),
    }),
    "Header fields that are set or removed on the way.",
  ),
});

/** Of the keys under `upstreams`. */
export const UPSTREAM_NAME = matching(
  /^[A-Za-z0-9_-]{1,64}$/,
  "a name has up to 64 letters, digits, dashes and underscores",
);

export type WrittenUpstream = z.output<typeof upstream>;

function readServerName(name: string): Result<string, Fault> {
  return SERVER_NAME.test(name) ? ok(name) : bad(SERVER_NAME_FORM);
}

function readHost(host: string): Result<HostRuleSetting, Fault> {
  if (host === "upstream" || host === "preserve") return ok({ kind: host });
  if (HOST.test(host)) return ok({ kind: "name", name: host });
  return bad(HOST_FORM);
}

/** Sent to the target as it is: a path of its own, with a query where it wants one. */
function readCheckPath(path: string): Result<string, Fault> {
  return CHECK_PATH.test(path) ? ok(path) : bad(CHECK_PATH_FORM);
}

function readHeaderName(name: string): Result<string, Fault> {
  return HEADER_NAME.test(name) ? ok(name) : bad(HEADER_NAME_FORM);
}
