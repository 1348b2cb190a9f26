/**
 * Route keys: `[METHODS ]/pattern`. A pattern has to be in the one canonical form in which the gateway
 * compares paths; another spelling would never match, and a price that never matches is a hole.
 */
import { readingsOf } from "../../http/path-readings.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import type { Fault } from "../reading/problem.ts";
import { latinOf, lookAlike } from "../reading/look-alikes.ts";
import { bad, fault, readMethod } from "../reading/reading.ts";

export type PathSegmentSetting =
  | { readonly kind: "static"; readonly text: string }
  | { readonly kind: "param"; readonly name: string }
  | { readonly kind: "rest" };

export interface RouteKey {
  /** Upper-case, as listed; null: every method. That `GET` covers `HEAD` is left to the router. */
  readonly methods: readonly string[] | null;
  /** The part of the key after the methods, in canonical form: `/reports/:id`. */
  readonly pattern: string;
  /** The pattern's segments; `/` is one empty static segment, `rest` comes last only. */
  readonly segments: readonly PathSegmentSetting[];
}

const PARAMETER = /^:[A-Za-z_][A-Za-z0-9_]*$/;
const UNRESERVED = /[A-Za-z0-9._~-]/;
/** Longest pattern, characters; the gateway refuses paths of four times as many. */
const MAX_PATTERN = 1024;
/**
 * What the gateway refuses in every path, because readers disagree about it: encoded slashes,
 * backslashes, semicolons and controls (C1 ones too), and what a second decoding would change.
 */
const AMBIGUOUS_ESCAPE = /%(?:2F|3B|5C|[01][0-9A-F]|7F|C2%[89][0-9A-F]|25[0-9A-Fa-f]{2})/;

const NAME_OR_REST = "write :name for one part, and * at the end for the rest";
const NEVER_ASKED = "leave it out: nobody can ask for it";

/** Signs of a regular expression, or of a pattern as other programs write them. */
const EXPRESSION =
  /^(?:[A-Za-z,]+ )?[~^]|\.[*+](?:\W|$)|\\[dws/.]|[)\]][*+?]|\(\?|\((?=.*\))|\[[^\]]*-[^\]]*\]/;

export function readRouteKey(key: string): Result<RouteKey, Fault> {
  if (key.length <= MAX_PATTERN && EXPRESSION.test(key)) {
    const message = "this looks like a regular expression: a route is a path, part by part";
    const meant = asPattern(key);
    if (meant !== undefined) return refuse(message, meant);
    return err(fault("bad-route", message, NAME_OR_REST));
  }
  const slash = key.indexOf("/");
  if (slash < 0 || key.includes("://")) {
    const near = /^([A-Za-z,]+ )?([\w.-]+)$/.exec(key);
    const bare = key.replace(/https?:\/\/[^/]+(?=\/)/, "");
    const spelling = near ? `${near[1] ?? ""}/${near[2]}` : bare === key ? undefined : bare;
    return refuse("a route is a path that begins with /, after methods where needed", spelling);
  }
  const bare = withoutSlash(key);
  if (bare !== undefined) {
    return refuse("a route is a path that begins with /, after methods where needed", bare);
  }
  const pattern = key.slice(slash);
  const methods = readMethods(key.slice(0, slash), pattern);
  if (!methods.ok) return methods;
  const segments = readPattern(pattern, key.slice(0, slash));
  return segments.ok ? ok({ methods: methods.value, pattern, segments: segments.value }) : segments;
}

/** A simple expression as the route that it stands for; undefined: it is none of those. */
function asPattern(key: string): string | undefined {
  const [, methods = "", path = ""] = /^([A-Za-z,]+ )?[~^*= ]*([^$]*)\$?$/.exec(key) ?? [];
  const plain = path
    .replace(/\\([/.])/g, "$1")
    .replace(/\/\(?(?:\.[*+]|\*\*)\)?$/, "/*")
    .replace(/\/(?:\((?:\[[^/]*\]|\\[a-z]|\.)[+*]?\)|(?:\[[^/]*\]|\\[a-z])[+*]?)(?=\/|$)/g, "/:id");
  return /^\/[\w/:.*~-]*$/.test(plain) ? `${methods}${plain}` : undefined;
}

/** `GET weather/today` or `weather/today` as it was meant; undefined where the first word is a method. */
function withoutSlash(key: string): string | undefined {
  const [, methods = "", first = "", rest = ""] =
    /^([A-Za-z,]+ )?([\w.~:-]+)(\/.*)$/.exec(key) ?? [];
  if (first === "" || (methods === "" && readMethod(first.toUpperCase()).ok)) return undefined;
  return `${methods}/${first}${rest}`;
}

/** A path without variable parts, canonical and without the slash at its end: "" for `/` alone. */
export function readFixedPath(path: string): Result<string, Fault> {
  const trimmed = path.replace(/\/+$/, "");
  if (!path.startsWith("/")) return bad("must be a path that begins with /");
  if (/(?:^|\/)(?::|[^/]*\*)/.test(trimmed)) return bad("must be a fixed path: no :name and no *");
  const read = readPattern(trimmed === "" ? "/" : trimmed, "");
  return read.ok ? ok(trimmed) : err({ ...read.error, code: "bad-value" });
}

/** `GET,HEAD ` before a pattern; "" means every method. */
function readMethods(text: string, pattern: string): Result<readonly string[] | null, Fault> {
  if (text === "") return ok(null);
  const tokens = text.trim().split(/\s*,\s*/);
  const canonical = `${tokens.map((token) => token.toUpperCase()).join(",")} `;
  const methods: string[] = [];
  for (const token of tokens) {
    const method = readMethod(token.toUpperCase());
    const several = token.toUpperCase().split("|");
    if (several.length > 1 && several.every((each) => readMethod(each).ok)) {
      return refuse("methods have commas between", `${several.join(",")} ${pattern}`);
    }
    if (!method.ok) return method;
    if (methods.includes(method.value)) {
      const spelling = `${[...new Set(canonical.trim().split(","))].join()} ${pattern}`;
      return refuse("a method is listed twice", spelling);
    }
    methods.push(method.value);
  }
  if (text === canonical) return ok(methods);
  return refuse(
    "methods are upper-case words with commas between and one space after",
    `${canonical}${pattern}`,
  );
}

function readPattern(
  pattern: string,
  prefix: string,
): Result<readonly PathSegmentSetting[], Fault> {
  const reason = forbidden(pattern);
  if (reason !== undefined) {
    const spelling = namedPattern(pattern, prefix);
    const [message, hint] = reason;
    return spelling === undefined
      ? err(fault("bad-route", message, hint))
      : refuse(message, spelling);
  }
  const letter = lookAlike(pattern);
  if (letter !== undefined) {
    return refuse(`the path is not what it seems: ${letter}`, `${prefix}${latinOf(pattern)}`);
  }
  const canonical = canonicalPattern(pattern);
  if (canonical === undefined) return refuse("a percent sign is not followed by UTF-8 in hex");
  if (AMBIGUOUS_ESCAPE.test(canonical)) {
    const message =
      "an encoded separator, control character or percent sign is refused in every path";
    return err(fault("bad-route", message, NEVER_ASKED));
  }
  if (canonical !== pattern) {
    return refuse("the path is not in canonical form", `${prefix}${canonical}`);
  }
  const texts = pattern.slice(1).split("/");
  if (hasTooManyReadings(texts)) {
    return refuse(
      "backends may read this path in too many ways: names of blanks, dots and + alone, or hidden separators",
    );
  }
  const names = new Set<string>();
  const segments: PathSegmentSetting[] = [];
  for (const [index, text] of texts.entries()) {
    const segment = readSegment(text, index === texts.length - 1);
    if (!segment.ok) return segment;
    if (segment.value.kind === "param") {
      if (names.has(segment.value.name)) {
        const hint = "give each a name of its own";
        return err(fault("bad-route", "a parameter is named twice", hint));
      }
      names.add(segment.value.name);
    }
    segments.push(segment.value);
  }
  return ok(segments);
}

/** What the gateway would refuse at its start: it compares every reading of a pattern with those of the others. */
function hasTooManyReadings(texts: readonly string[]): boolean {
  const isRest = texts.at(-1) === "*";
  const isSlashed = texts.at(-1) === "";
  const names = isRest || isSlashed ? texts.slice(0, -1) : texts;
  const decoded = names.map((text) => (PARAMETER.test(text) ? null : decodeURIComponent(text)));
  return readingsOf(decoded, isSlashed) === null;
}

function readSegment(text: string, last: boolean): Result<PathSegmentSetting, Fault> {
  if (text === "*" && last) return ok({ kind: "rest" });
  if (text.includes("*")) {
    const message = "* stands only as the whole last segment; :name stands for any one segment";
    return err(fault("bad-route", message, last ? "end it with /*" : "write :name"));
  }
  if (PARAMETER.test(text)) return ok({ kind: "param", name: text.slice(1) });
  if (text.startsWith(":")) return refuse("a parameter is a colon and a name: /reports/:id");
  return ok({ kind: "static", text });
}

/** `/reports/{id}`, as an API description or a framework has it; undefined where a pattern is nothing like it. */
function namedPattern(pattern: string, prefix: string): string | undefined {
  const named = pattern
    .replace(/\{(?:\*\*?|\w+:?\*)\}$|<path:\w+>$/, "*")
    .replace(/(?<=\/)[{<](?:\w+:)?(\w+)[}>](?=\/|$)/g, ":$1");
  return named === pattern || forbidden(named) !== undefined ? undefined : `${prefix}${named}`;
}

/** What stands in the way of any path, and what to do about it. */
function forbidden(pattern: string): readonly [message: string, hint: string] | undefined {
  if (pattern.length > MAX_PATTERN) {
    return [`a path has at most ${MAX_PATTERN} characters here`, "end a shorter one with /*"];
  }
  if (/[?#]/.test(pattern)) {
    const message = "a route has no query and no fragment, only the path counts";
    return [message, "leave out the ? or # and what follows it"];
  }
  if (/[\\;\p{Cc}]/u.test(pattern)) {
    const message = "backslashes, semicolons and control characters are refused in every path";
    return [message, NEVER_ASKED];
  }
  if (/\/\.{1,2}(?=\/|$)/.test(pattern.replace(/%2e/gi, "."))) {
    return ["segments . and .. are refused in every path", "write the path that they lead to"];
  }
  if (/[{}<>^`|"[\]]/.test(pattern)) {
    const message =
      "brackets, braces and quotes have no meaning in a path: there are no regular expressions";
    return [message, NAME_OR_REST];
  }
  return undefined;
}

/** One slash between segments; only what must be encoded is, in upper case. */
function canonicalPattern(pattern: string): string | undefined {
  const encoded = pattern
    .toWellFormed()
    .replace(/\/{2,}/g, "/")
    .replace(/%[0-9a-fA-F]{2}/g, (escape) => {
      const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
      return UNRESERVED.test(character) ? character : escape.toUpperCase();
    })
    .replace(/[^\x21-\x7e]/gu, encodeURIComponent);
  try {
    decodeURIComponent(encoded);
    return encoded;
  } catch {
    return undefined;
  }
}

function refuse(message: string, spelling?: string): { ok: false; error: Fault } {
  const suggestion = spelling === undefined ? undefined : `write ${JSON.stringify(spelling)}`;
  return err(fault("bad-route", message, suggestion));
}
