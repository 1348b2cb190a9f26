/**
 * `facilitator.auth.gateways` and `facilitator.catalogue`: gateways that settle through us, each with a token of its
 * own, and what of their sales is listed. The listing says what is sold where, so what a gateway may have in it is
 * for the file to say: no two of them speak for one URL.
 */
import { z } from "zod";
import { ok, type Result } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import { BASE_URL } from "../reading/forms.ts";
import type { Fault } from "../reading/problem.ts";
import { bad, fault, LASTING, LASTING_FORM, readBaseUrl, readLasting } from "../reading/reading.ts";
import { Secret } from "./secret.ts";
import {
  described,
  flag,
  listOf,
  map,
  matching,
  optional,
  text,
  textLike,
  whole,
} from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

/** A gateway that settles through us under a token of its own. */
export interface CallingGateway {
  readonly name: string;
  /** Another one than that of every other caller. */
  readonly bearer: Secret;
  /**
   * What it sells under these URLs is listed: absolute http(s) URLs in canonical form without query, fragment or
   * trailing slash, none of which is under one of another gateway, or of ours. Empty: nothing of it is listed.
   */
  readonly urls: readonly string[];
}

/** How the sales of other gateways are listed. */
export interface CatalogueSettings {
  /** What has not been sold for so long is listed no more. */
  readonly expiresMs: number;
  /** Resources of each gateway: the one that was sold longest ago makes room. */
  readonly maxResources: number;
  /** Whether the listing on the facilitator's listener is open to everybody. */
  readonly isPublic: boolean;
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const NAME_FORM = "must have up to 64 letters, digits, dashes and underscores";
/** Most gateways in one file: each token is compared with what a caller sends. */
const MAX_GATEWAYS = 256;
/** Most URLs of one gateway. */
const MAX_URLS = 64;
/** Most resources of one gateway, and of all of them: they are in memory, and each page is made from all. */
const MAX_RESOURCES = 10_000;
const MAX_LISTED = 20_000;

const bearer = textLike(/^[\x21-\x7e]+$/, "must be printable ASCII without spaces");

const gateway = map({
  bearer: described(bearer, "What this gateway sends as `Authorization: Bearer …`; nobody else's."),
  urls: optional(
    listOf(text(readListedUrl, BASE_URL)).max(MAX_URLS, `must have at most ${MAX_URLS} entries`),
    "What it sells under these URLs is listed beside our own. Without it: nothing of it.",
  ),
});

/** `facilitator.auth`. */
export const auth = map({
  bearer: optional(bearer, "What callers send as `Authorization: Bearer …`."),
  gateways: optional(
    z.record(z.string().regex(NAME, NAME_FORM), gateway, "must be a map"),
    "Gateways that settle through this one, by a name of your choice, each with a token of its own.",
  ),
});

/** `facilitator.catalogue`. */
export const catalogue = map({
  expires: optional(
    text(readLasting, matching(LASTING, LASTING_FORM, "30d", "12h"), LASTING_FORM),
    "What a gateway has not sold for so long is listed no more.",
    "30d",
  ),
  resources: optional(
    whole(1, MAX_RESOURCES),
    "Resources of each gateway at most; the one that was sold longest ago makes room.",
    1_000,
  ),
  public: optional(
    flag,
    "Lets everybody read /discovery/resources on this listener, and not only its callers.",
    false,
  ),
}).transform(({ expires, resources, public: isPublic }): CatalogueSettings => ({
  expiresMs: expires,
  maxResources: resources,
  isPublic,
}));

/** In the form in which URLs are compared. */
function readListedUrl(written: string): Result<string, Fault> {
  const url = readBaseUrl(written);
  if (!url.ok) return url;
  const { hostname, href } = new URL(url.value);
  if (hostname.includes("*"))
    return bad("must have a host without *", "write one URL for each host");
  // The same host to a resolver, and another one to whoever compares URLs.
  if (hostname.endsWith(".")) return bad("must have a host without a dot at its end");
  return ok(href.replace(/\/+$/, ""));
}

/** What a facilitator says of those who call it. */
interface WrittenHub {
  readonly auth?: z.output<typeof auth>;
  readonly catalogue: CatalogueSettings;
}

export interface CallerSettings {
  /** Taken as `Authorization: Bearer …` there; null and no gateways: none is required. */
  readonly bearer: Secret | null;
  /** Gateways that have tokens of their own there, in the order written. */
  readonly gateways: readonly CallingGateway[];
  readonly catalogue: CatalogueSettings;
}

const AUTH: Path = ["facilitator", "auth"];

/** `ownUrl`: where we sell ourselves; undefined where we do not. */
export function resolveHub(
  { auth, catalogue }: WrittenHub,
  ownUrl: string | undefined,
  context: Context,
): CallerSettings {
  const { bearer: shared, gateways = {} } = auth ?? {};
  const named = Object.entries(gateways);
  checkAuth(auth, named, context);
  checkTokens(named, shared, context);
  checkUrls(named, ownUrl, context);
  checkRoom(named.filter(hasUrls).length, catalogue.maxResources, context);
  return {
    bearer: shared === undefined ? null : new Secret(shared),
    gateways: named.map(([name, { bearer: own, urls = [] }]) => {
      return { name, bearer: new Secret(own), urls };
    }),
    catalogue,
  };
}

/** Nobody who might buy can read the listing: most likely not what it is for. */
export function reviewHub(
  { listen, gateways, catalogue }: CallerSettings & { readonly listen: object | null },
  isListedHere: boolean,
  { problems, tree }: Context,
): void {
  if (listen === null || catalogue.isPublic || isListedHere) return;
  if (!tree.intact(["facilitator"])) return;
  const first = gateways.find(({ urls }) => urls.length > 0);
  if (first === undefined) return;
  const message =
    "only callers with a token can read the listing in which this gateway's sales are";
  const hint = "write catalogue: { public: true } under facilitator to show it to buyers";
  const path = [...AUTH, "gateways", first.name, "urls"];
  problems.add("note", path, fault("hidden-listing", message, hint), "key");
}

type NamedGateway = readonly [name: string, gateway: z.output<typeof gateway>];
type Named = readonly NamedGateway[];

function hasUrls([, { urls = [] }]: NamedGateway): boolean {
  return urls.length > 0;
}

function checkRoom(gateways: number, resources: number, { problems, tree }: Context): void {
  if (gateways * resources <= MAX_LISTED) return;
  const path = ["facilitator", "catalogue", "resources"];
  const most = Math.floor(MAX_LISTED / gateways);
  const message = `${gateways} gateways with ${resources} resources each are more than ${MAX_LISTED}`;
  const found = fault("bad-value", message, `write resources: ${most} under facilitator.catalogue`);
  if (tree.has(path)) problems.error(path, found);
  else problems.errorAtKey([...AUTH, "gateways"], found);
}

function checkAuth(written: WrittenHub["auth"], named: Named, { problems, tree }: Context): void {
  if (!tree.intact(AUTH)) return;
  if (written !== undefined && written.bearer === undefined && named.length === 0) {
    const hint = "add bearer: ${TOKEN}, or gateways";
    problems.errorAtKey(AUTH, fault("missing-key", "must have bearer or gateways", hint));
  }
  if (named.length > MAX_GATEWAYS) {
    const message = `must have at most ${MAX_GATEWAYS} entries`;
    problems.error([...AUTH, "gateways"], fault("bad-value", message));
  }
  const path = ["facilitator", "catalogue"];
  if (!tree.stands(path) || named.some(hasUrls)) return;
  const message = "has no effect: no gateway under facilitator.auth.gateways has urls";
  problems.add("warning", path, fault("unused-key", message), "key");
}

/** Two callers with one token could not be told apart. */
function checkTokens(named: Named, shared: string | undefined, { problems }: Context): void {
  const holders = new Map<string, string>(shared === undefined ? [] : [[shared, "auth.bearer"]]);
  for (const [name, { bearer: own }] of named) {
    const holder = holders.get(own);
    if (holder === undefined) {
      holders.set(own, `gateways.${name}`);
      continue;
    }
    const message = `is the token of ${holder}, too: each caller needs one of its own`;
    problems.error([...AUTH, "gateways", name, "bearer"], fault("duplicate-entry", message));
  }
}

/** Of one resource one gateway speaks, and of ours we do. */
function checkUrls(named: Named, ownUrl: string | undefined, { problems }: Context): void {
  const own = ownUrl === undefined ? [] : [ownUrl];
  const holders = own.map((url) => ({ url: new URL(url).href, holder: "publicUrl", name: "" }));
  for (const [name, { urls = [] }] of named) {
    for (const [index, url] of urls.entries()) {
      const rival = holders.find((each) => isWithin(url, each.url) || isWithin(each.url, url));
      holders.push({ url, holder: `gateways.${name}`, name });
      if (rival === undefined) continue;
      const path = [...AUTH, "gateways", name, "urls", index];
      const message =
        rival.name === name
          ? "this URL is, or is within, another one of this gateway"
          : `this URL and ${rival.holder} overlap: one gateway speaks for a URL`;
      problems.error(path, fault("duplicate-entry", message));
    }
  }
}

function isWithin(url: string, base: string): boolean {
  const start = base.replace(/\/+$/, "");
  return url === start || url.startsWith(`${start}/`);
}
