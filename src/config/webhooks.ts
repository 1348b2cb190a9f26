/** `webhooks`: who is told what has happened, by requests that are signed as Standard Webhooks has it. */
import { z } from "zod";
import { EVENT_TYPES, type EventType } from "../x402/event-type.ts";
import { err, ok, type Result } from "../x402/result.ts";
import { findKey, REFERENCE } from "./facilitator/private-key.ts";
import { Secret } from "./facilitator/secret.ts";
import { isLoopback } from "./listener/listeners.ts";
import type { Context } from "./reading/context.ts";
import type { Fault } from "./reading/problem.ts";
import { bad, fault, readRpcUrl, type Reader } from "./reading/reading.ts";
import { described, listOf, map, matching, named, optional, text, word } from "./reading/shapes.ts";
import type { Path } from "./reading/tree.ts";

export interface WebhookEndpoint {
  /** Waiting messages are kept under it. */
  readonly name: string;
  /** Absolute URL without a query. */
  readonly url: string;
  /** `whsec_…`, at least one: each message is signed with all of them. */
  readonly secrets: readonly Secret[];
  readonly events: readonly EventType[];
}

/** Each is a row in the ledger for each event. */
const MAX_ENDPOINTS = 16;
/** While one secret takes the place of another there are two. */
const MAX_SECRETS = 4;
/** Bytes of a secret, as the standard has it. */
const LEAST_SECRET = 24;
const LONGEST_SECRET = 64;

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$/;
const NAME_FORM = "must be a name: letters, digits, - and _, at most 32";
const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/;
/** Of networks that nobody else is in. */
const PRIVATE =
  /^(?:10(?:\.\d+){3}|192\.168(?:\.\d+){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d+){2}|\[f[cd].*\])$/;

const REFERENCE_FORM = "must be a reference to a secret: env:NAME or file:PATH";
const URL_FORM = "must be an absolute http or https URL without a query";

const readUrl: Reader<string> = (written) => {
  const url = readRpcUrl(written);
  if (!url.ok) return url;
  const hint = "leave it out: receivers know us by the signature";
  return written.includes("?") ? bad("must have no query", hint) : ok(url.value.href);
};

const secret = text(
  (written): Result<string, Fault> => {
    if (REFERENCE.test(written)) return ok(written);
    const hint = "write env:NAME: NAME holds it then, or the file of NAME_FILE";
    return SECRET.test(written)
      ? err(fault("literal-secret", "a secret must not stand in the configuration", hint))
      : bad(REFERENCE_FORM);
  },
  matching(REFERENCE, REFERENCE_FORM, "env:WEBHOOK_SECRET", "file:/run/secrets/webhook"),
);

const endpoint = map({
  url: described(
    text(readUrl, matching(/^https?:\/\/[^\s\\?#]+$/, URL_FORM)),
    "Where each message is posted: https, but on this machine or a private network.",
  ),
  secrets: described(
    z.union(
      [secret.transform((one): readonly string[] => [one]), listOf(secret)],
      "must be a reference, or a list of them",
    ),
    "References to what messages are signed with, whsec_ and base64: env:NAME or file:PATH. With several each message " +
      "has a signature by each, so that one can take the place of another.",
  ),
  events: optional(
    listOf(word(EVENT_TYPES)),
    `What is told: ${EVENT_TYPES.join(", ")}. Without it: all of them.`,
  ),
});

export const webhooks = named(endpoint, { pattern: NAME.source });

export function resolveWebhooks(
  written: z.output<typeof webhooks> = {},
  context: Context,
): readonly WebhookEndpoint[] {
  const { problems, tree } = context;
  const names = Object.keys(written);
  if (names.length > MAX_ENDPOINTS) {
    const message = `must have at most ${MAX_ENDPOINTS} receivers`;
    problems.error(["webhooks"], fault("bad-value", message));
  }
  return names.flatMap((name) => {
    const given = written[name];
    const path = ["webhooks", name];
    if (!NAME.test(name)) problems.errorAtKey(path, fault("bad-key", NAME_FORM));
    if (given === undefined) return [];
    const { url, events = EVENT_TYPES } = given;
    refusePlainHttp(url, [...path, "url"], context);
    if (events.length === 0 && tree.intact([...path, "events"])) {
      const hint = "leave the key out for all of them";
      problems.error([...path, "events"], fault("bad-value", "must name an event", hint));
    }
    const secrets = readSecrets(given.secrets, [...path, "secrets"], context);
    return [{ name, url, secrets, events: [...new Set(events)] }];
  });
}

/** What is told is who paid whom how much. */
function refusePlainHttp(url: string, path: Path, { problems }: Context): void {
  const { protocol, hostname } = new URL(url);
  const isNear = isLoopback(hostname) || !/[.:]/.test(hostname) || PRIVATE.test(hostname);
  if (protocol === "https:" || isNear) return;
  const message = "is http: whoever is on the way reads who paid whom";
  problems.error(path, fault("plain-webhook", message, "write https://"));
}

function readSecrets(
  references: readonly string[],
  list: Path,
  context: Context,
): readonly Secret[] {
  const { problems, tree } = context;
  const isAlone = tree.find(list)?.kind === "scalar";
  const isWrong = references.length === 0 || references.length > MAX_SECRETS;
  if (isWrong && tree.intact(list)) {
    problems.error(list, fault("bad-value", `must have 1 to ${MAX_SECRETS} secrets`));
  }
  return references.flatMap((reference, index) => {
    const path = isAlone ? list : [...list, index];
    const found = findKey(reference, context);
    const read = found.ok ? readSecret(found.value.text) : found;
    if (found.ok && found.value.file !== undefined) context.warnOfReaders(path, found.value.file);
    if (read.ok) return [new Secret(read.value)];
    if (!context.forgives(read.error)) problems.error(path, read.error);
    return [];
  });
}

function readSecret(written: string): Result<string, Fault> {
  const [, base64 = ""] = SECRET.exec(written) ?? [];
  const bytes = Buffer.from(base64, "base64").length;
  if (bytes >= LEAST_SECRET && bytes <= LONGEST_SECRET) return ok(written);
  const message =
    `the reference does not lead to a secret: whsec_ and base64 of ${LEAST_SECRET} to ` +
    `${LONGEST_SECRET} bytes`;
  return err(fault("malformed-key", message, "make one: echo whsec_$(openssl rand -base64 32)"));
}
