/** `listen` and `admin`: where the process listens, each address once, and with which certificates. */
import { z } from "zod";
import { ok } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import { acme, checkSame, resolveAcme, type AcmeSettings } from "./acme.ts";
import {
  CERT,
  certificatePair,
  filePath,
  KEY,
  refuseBeside,
  resolveCertificates,
  type AskedName,
  type ListenerTls,
} from "./certificates.ts";
import { bad, fault, ONE_OF_TWO, type Reader } from "../reading/reading.ts";
import {
  described,
  flag,
  listOf,
  map,
  matching,
  optional,
  reader,
  text,
  textLike,
} from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

export interface ListenAddress {
  /** IP address or host name; null: every interface. */
  readonly host: string | null;
  /** 0 to 65535; 0 lets the system choose. */
  readonly port: number;
}

export interface AdminSettings extends ListenAddress {
  /** Whether requests are shown step by step, at /payments. */
  readonly timeline: boolean;
  /** Names that it answers to, lower-case, beside addresses and `localhost`: that of {@link host}, and those named. */
  readonly hosts: readonly string[];
}

export interface ListenerSettings extends ListenAddress {
  /** Null: HTTP/1.1 in the clear. */
  readonly tls: ListenerTls | null;
}

/** Where buyers connect. */
export interface PublicListenerSettings extends ListenAddress {
  /** `acme`: with the certificates that an authority gives us; null: HTTP/1.1 in the clear. */
  readonly tls: ListenerTls | "acme" | null;
  /** Leads whoever comes to the same place of publicUrl, and answers nothing else but an authority's challenges. */
  readonly redirect: boolean;
}

/** Names in a list at most, and in a map. */
export const MAX_HOSTS = 1024;

const ADDRESS_HOST = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])$/;
const ADDRESS_FORM = "must be host:port or :port, with a port from 0 to 65535";

/** `:8402`, `host:port` or `[::1]:8402`. */
export const readListenAddress: Reader<ListenAddress> = (text) => {
  const split = text.lastIndexOf(":");
  const host = text.slice(0, Math.max(split, 0));
  const port = /^[0-9]{1,5}$/.test(text.slice(split + 1)) ? Number(text.slice(split + 1)) : NaN;
  if ((host !== "" && !ADDRESS_HOST.test(host)) || !(port <= 65_535)) {
    if (/^https?:/.test(text)) return bad(ADDRESS_FORM, "leave out the scheme: host:port");
    const isBare = text.split(":").length > 2;
    return bad(ADDRESS_FORM, isBare ? "put an IPv6 address in brackets: [::1]:8402" : undefined);
  }
  const bare = host.replace(/^\[|\]$/g, "");
  return ok({ host: bare === "" ? null : bare, port });
};

export const address = text(
  readListenAddress,
  matching(/^(?:.*:)?[0-9]{1,5}$/, ADDRESS_FORM, ":8402", "127.0.0.1:8402"),
  ADDRESS_FORM,
);
const port = reader(z.number(), (number) => readListenAddress(`:${number}`), {
  type: "integer",
  minimum: 0,
  maximum: 65_535,
});

const WHERE = "Where to listen: host:port, or :port for every interface.";
const WITH_TLS = "With it the address speaks TLS, and HTTP/2 beside HTTP/1.1.";

const listenerMap = map({
  address: described(address, WHERE),
  tls: optional(certificatePair, WITH_TLS),
});

type WrittenListener = z.output<typeof listenerMap>;

/** An address at which something is served, with or without TLS. */
export const listener = addressOr(listenerMap);

const publicListenerMap = map({
  address: described(address, WHERE),
  tls: optional(
    map({
      cert: optional(filePath, CERT),
      key: optional(filePath, KEY),
      certificates: optional(
        listOf(certificatePair)
          .min(1, "must have one at least")
          .max(MAX_HOSTS, `must have at most ${MAX_HOSTS}`),
        "In place of one pair: several. Each client gets the one that is for the name that it asks for (SNI), as the " +
          "certificates say themselves, and the first where none is or it names none.",
      ),
      acme: optional(
        acme,
        "In place of files: certificates that an authority gives and renews by itself, kept in the store for all " +
          "who share it.",
      ),
    }),
    WITH_TLS,
  ),
  redirect: optional(
    flag,
    "Without tls: leads every request to the same place of publicUrl (308), and answers the challenges of acme.",
    false,
  ),
});

type WrittenPublicListener = z.output<typeof publicListenerMap>;

const publicListener = addressOr(publicListenerMap);

/** One of them, or several. */
export const listeners = z.union(
  [publicListener.transform((one) => [one]), listOf(publicListener)],
  "must be an address or a list of addresses",
);

function alone(address: ListenAddress) {
  return { address, redirect: false };
}

/** What a map means where its address stands alone. */
function addressOr<Shape extends typeof listenerMap | typeof publicListenerMap>(shape: Shape) {
  return z.union(
    [address.transform(alone), port.transform(alone), shape],
    "must be host:port, :port or a port number",
  );
}

export const hostNames = listOf(
  textLike(
    /^(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?$/,
    "must be the name of a host, or *.NAME for all below it, without a port",
    "api.example.com",
    "*.example.com",
  ),
).max(MAX_HOSTS, `must have at most ${MAX_HOSTS} names`);

const adminMap = map({
  address: described(address, "Where to listen: host:port."),
  timeline: optional(
    flag,
    "Shows what was earned at / and recent requests step by step at /payments, to whoever reaches this address. Without it: " +
      "only where that is this machine alone.",
  ),
  hosts: optional(
    hostNames,
    "Names that it is asked by, as scrapers are told them; it always answers to IP addresses and localhost.",
  ),
});

/** Requests are shown where only this machine can ask, or where the file says so. */
export const admin = z
  .union(
    [address.transform((address): z.output<typeof adminMap> => ({ address })), adminMap],
    "must be host:port or { address, timeline, hosts }",
  )
  .transform(({ address: { host, port }, timeline, hosts = [] }): AdminSettings => {
    const names = [...(host === null ? [] : [host]), ...hosts].map((name) => name.toLowerCase());
    return { host, port, timeline: timeline ?? (host !== null && isLoopback(host)), hosts: names };
  });

/** What of the file the public listeners go by. */
interface PublicGround {
  readonly listen: readonly WrittenPublicListener[];
  readonly publicUrl?: string;
  readonly hosts?: readonly string[];
}

/** The public listeners. `names`: by which clients ask for their certificates; none: a proxy before them does. */
export function resolveListen(
  { listen, publicUrl, ...document }: PublicGround,
  names: readonly AskedName[],
  context: Context,
): { readonly listen: readonly PublicListenerSettings[]; readonly acme: AcmeSettings | null } {
  const { tree, problems } = context;
  if (listen.length === 0 && tree.intact(["listen"])) {
    problems.error(["listen"], fault("bad-value", "must have at least one address"));
  }
  const hasPlain = listen.some(({ tls }) => tls === undefined);
  const ground = { ...document, ...(publicUrl === undefined ? {} : { publicUrl }), hasPlain };
  const certified: { readonly path: Path; readonly settings: AcmeSettings }[] = [];
  const settings = listen.map(({ address, tls, redirect }, index): PublicListenerSettings => {
    const path = placeOf(index, context);
    if (redirect) checkRedirect({ path, publicUrl, isSecure: tls !== undefined }, context);
    const where = [...path, "tls"];
    if (tls?.acme === undefined) {
      const files = tls === undefined ? null : resolveCertificates(tls, where, names, context);
      return { ...address, tls: files, redirect };
    }
    const place = [...where, "acme"];
    refuseBeside("acme", where, tls, context);
    certified.push({ path: place, settings: resolveAcme(tls.acme, place, ground, context) });
    return { ...address, tls: "acme", redirect };
  });
  checkSame(certified, context);
  return { listen: settings, acme: certified[0]?.settings ?? null };
}

/** Nothing is sold there, so that it has to lead to where something is. */
function checkRedirect(
  {
    path,
    publicUrl,
    isSecure,
  }: { readonly path: Path; readonly publicUrl: string | undefined; readonly isSecure: boolean },
  { problems }: Context,
): void {
  const place = [...path, "redirect"];
  if (isSecure) {
    const message = "is for a listener without tls: it leads from http to https";
    problems.error(place, fault("bad-value", message, ONE_OF_TWO));
  } else if (publicUrl?.startsWith("https:") !== true) {
    const message = "leads to publicUrl, which is not https";
    problems.error(place, fault("bad-value", message, "write publicUrl: https://…"));
  }
}

function placeOf(index: number, { tree }: Context): Path {
  return tree.find(["listen"])?.kind === "sequence" ? ["listen", index] : ["listen"];
}

/** Whether only this machine can reach a listener there; a host as it is written, or as a URL has it. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.[0-9]+){3}|\[?::1\]?|.*\.localhost)$/.test(host);
}

/** One address, at its place in the file. */
export function resolveListener(
  { address, tls }: WrittenListener,
  path: Path,
  context: Context,
): ListenerSettings {
  if (tls === undefined) return { ...address, tls: null };
  return { ...address, tls: resolveCertificates(tls, [...path, "tls"], [], context) };
}

/** All that a file may listen at. */
interface Listening {
  readonly listen: readonly WrittenPublicListener[];
  readonly sidecar?: { readonly listen: ListenAddress };
  readonly routes?: object;
  readonly admin?: ListenAddress;
  readonly facilitator: { readonly listen?: WrittenListener };
}

/** An address at its place in the file. */
interface PlacedAddress {
  readonly path: Path;
  readonly address: ListenAddress;
}

function placedAddresses(
  { listen, sidecar, routes, admin, facilitator }: Listening,
  context: Context,
): readonly PlacedAddress[] {
  const named: PlacedAddress[] = [];
  const isWritten = context.tree.stands(["listen"]);
  if (sidecar !== undefined && !isWritten) {
    named.push({ path: ["sidecar", "listen"], address: sidecar.listen });
  } else if (isWritten || routes !== undefined || context.tree.keys(["hosts"]).length > 0) {
    for (const [index, { address }] of listen.entries()) {
      named.push({ path: placeOf(index, context), address });
    }
  }
  if (admin !== undefined) named.push({ path: ["admin"], address: admin });
  if (facilitator.listen !== undefined) {
    named.push({ path: ["facilitator", "listen"], address: facilitator.listen.address });
  }
  return named;
}

/** Two listeners on one address: the second would fail at start, or serve what the first should. */
export function checkListeners(
  document: Listening,
  asked: readonly AskedUrl[],
  context: Context,
): void {
  const named = placedAddresses(document, context);
  for (const [index, { path, address }] of named.entries()) {
    const rival = named.slice(0, index).find((each) => collide(each.address, address));
    if (rival === undefined) continue;
    const message = `this address is already taken by ${inWords(rival.path)}`;
    const hint = "give one of them another port";
    context.problems.error(path, fault("address-taken", message, hint));
  }
  for (const { path, url } of asked) {
    const { hostname, protocol, port } = new URL(url);
    const number = Number(port === "" ? (protocol === "https:" ? 443 : 80) : port);
    const own = named.find(({ address }) => address.port === number && isHere(hostname, address));
    if (own === undefined) continue;
    const message = `is where this process itself listens (${inWords(own.path)}): each request would ask for another`;
    const hint = "write the address of the program that is meant";
    context.problems.error(path, fault("own-listener", message, hint));
  }
}

/** A URL that this process asks, at its place in the file. */
export interface AskedUrl {
  readonly path: Path;
  readonly url: string;
}

/** What the name leads to. */
const LOCALHOST: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "::1"]);

/** Whether a host leads to a listener on this machine, as far as names and numbers tell. */
function isHere(hostname: string, { host }: ListenAddress): boolean {
  const name = hostname.replace(/^\[|\]$/g, "");
  if (host === null || isEverywhere(host)) return isLoopback(name) || isEverywhere(name);
  const isNamed = name === "localhost" || host === "localhost";
  return name === host || (isNamed && LOCALHOST.has(name) && LOCALHOST.has(host));
}

function isEverywhere(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

function inWords(path: Path): string {
  const steps = path.map((step) => (typeof step === "number" ? `[${step}]` : step));
  return steps.join(".").replaceAll(".[", "[");
}

function collide(left: ListenAddress, right: ListenAddress): boolean {
  if (left.port !== right.port || left.port === 0) return false;
  return left.host === right.host || left.host === null || right.host === null;
}
