/**
 * The whole file: which keys there are, what stands under each, and what it all comes to. A key's shape reads its value
 * and has its default; what values mean together is decided by `resolve.ts` and its neighbours. All messages complete
 * a sentence about the value that they point at. What the keys mean is written here, too, for editors.
 */
import { z } from "zod";
import { credits, type CreditsConfig } from "./credits.ts";
import { facilitator, type FacilitatorSettings } from "./facilitator/facilitator.ts";
import { refunds, type RefundSettings } from "./facilitator/refunds.ts";
import { hosts, type HostSettings } from "./hosts.ts";
import { limits, type Limits } from "./limits.ts";
import type { AcmeSettings } from "./listener/acme.ts";
import { trustedProxies, type AddressRange } from "./listener/address-range.ts";
import {
  admin,
  listeners,
  type AdminSettings,
  type PublicListenerSettings,
} from "./listener/listeners.ts";
import { sidecar, type SidecarSettings } from "./listener/sidecar.ts";
import { workers } from "./listener/workers.ts";
import { BASE_URL } from "./reading/forms.ts";
import { MAX_INCLUDED } from "./reading/source.ts";
import { readBaseUrl } from "./reading/reading.ts";
import {
  duration,
  flag,
  listOf,
  map,
  optional,
  plainText,
  section,
  text,
  word,
} from "./reading/shapes.ts";
import { mcp, MCP_USAGE, type McpSettings } from "./mcp.ts";
import {
  members,
  MEMBERS_USAGE,
  sessions,
  type MemberSettings,
  type SessionSettings,
} from "./members.ts";
import { passes, type PassSettings } from "./passes.ts";
import { payers, type PayerRules } from "./payers.ts";
import { acceptEntry, assets, payees } from "./routes/accepted.ts";
import { repeat, REPEAT_USAGE } from "./routes/after-sale.ts";
import { contact } from "./routes/contact.ts";
import { cors } from "./routes/cors.ts";
import { discovery, type DiscoverySettings } from "./routes/discovery.ts";
import { paywall, type PaywallSettings } from "./routes/paywall-page.ts";
import { routes, type RouteSettings } from "./routes/routes.ts";
import { MODES } from "./routes/route-block.ts";
import { store, type Keeping, type Store } from "./store.ts";
import { allowedNames } from "./upstream/upstream-headers.ts";
import type { Upstream } from "./upstream/upstream.ts";
import { onlyUpstream, upstreams } from "./upstream/upstreams.ts";
import { webhooks, type WebhookEndpoint } from "./webhooks.ts";
import { IDENTIFIER_USES } from "../x402/payment-identifier.ts";
import type { SpokenVersions } from "../x402/x402.ts";

/**
 * What a configuration file means once it is read: complete (every default filled in), resolved (references looked up,
 * prices in atomic units, paths absolute) and deep-frozen. Units come last in names; `null` says "not configured" where
 * there is no default.
 */
export interface Config {
  /** The file as it was named, for messages. */
  readonly file: string;
  /** Absolute paths of the files that it includes. */
  readonly included: readonly string[];
  /** Public listeners, opened only when there are routes; none where there is a sidecar, else at least one. */
  readonly listen: readonly PublicListenerSettings[];
  /** How certificates are got where a listener wants such; null: none does. */
  readonly acme: AcmeSettings | null;
  /** Where another proxy asks what may pass, in place of public listeners and upstreams; null: nowhere. */
  readonly sidecar: SidecarSettings | null;
  /**
   * Absolute http(s) URL without query, fragment or trailing slash: the only source of `resource`.
   * Null only when there are no routes but those of {@link sites}.
   */
  readonly publicUrl: string | null;
  /** Names that are answered beside the host of {@link publicUrl}, and those of {@link sites}, and no others; null: all are. */
  readonly hosts: readonly string[] | null;
  /** What is sold under other names, in the order written; the keys of this file are those of the site at {@link publicUrl}. */
  readonly sites: readonly HostSettings[];
  /** Peers whose `X-Forwarded-` and `Forwarded` fields are believed; empty: nobody's. */
  readonly trustedProxies: readonly AddressRange[];
  readonly limits: Limits;
  readonly shutdown: {
    /** How long requests in flight may take once nothing new is accepted. */
    readonly withinMs: number;
    /** How long requests are still accepted while readiness is red already: for load balancers. */
    readonly delayMs: number;
  };
  /** Processes that serve requests; 1: the only process does. `auto`: one for each core. */
  readonly workers: number | "auto";
  /** Whether a file that has become another one is taken up by itself. */
  readonly watch: boolean;
  /** The admin listener; null: none. */
  readonly admin: AdminSettings | null;
  /** In the order written; names are unique. `upstream: URL` is named `default`. Empty with a sidecar. */
  readonly upstreams: readonly Upstream[];
  readonly facilitator: FacilitatorSettings;
  /**
   * In the order written, which never matters for matching; those of {@link sites} behind all others, each for requests to
   * its own. Empty: no gateway, only a facilitator.
   */
  readonly routes: readonly RouteSettings[];
  /** What happens to a request that no route matches; `free` goes to {@link Config.defaultUpstream}. */
  readonly unmatched: "deny" | "free";
  /** Where `unmatched: free` goes: the name of an upstream; null when `unmatched` is `deny`. */
  readonly defaultUpstream: string | null;
  readonly discovery: DiscoverySettings;
  /**
   * Where buyers whose payment went wrong can ask the seller, as a link: `https:`, `http:` or `mailto:`, printable ASCII
   * without quotes and angle brackets. `discovery.contact` where nothing else is written; null: nowhere.
   */
  readonly support: string | null;
  readonly paywall: PaywallSettings;
  readonly payers: PayerRules;
  readonly members: MemberSettings;
  readonly sessions: SessionSettings;
  /** Null: nothing is prepaid here. */
  readonly credits: CreditsConfig | null;
  /** Sold at the file's own site, in the order written; names are unique. */
  readonly passes: readonly PassSettings[];
  /** Null: what is paid back is paid by other means. */
  readonly refunds: RefundSettings | null;
  /** Who is told what has happened, in the order written; names are unique. */
  readonly webhooks: readonly WebhookEndpoint[];
  readonly store: Store;
  readonly keeping: Keeping;
  readonly logging: {
    readonly level: (typeof LOG_LEVELS)[number];
    readonly format: "json" | "pretty";
    /** A line for each request that was answered; null: none. */
    readonly access: AccessSettings | null;
  };
  readonly metrics: {
    /** False: durations are told of all routes together. */
    readonly routeHistograms: boolean;
  };
  /** Which origins may read the answers in a browser. */
  readonly cors: "off" | "any" | readonly string[];
  /** Where the listed routes are tools of an MCP server; null: nowhere. */
  readonly mcp: McpSettings | null;
  /** The versions of the payment protocol that are spoken to buyers. */
  readonly protocol: SpokenVersions;
}

const SHUTDOWN_WITHIN = "30s";

const shutdownMap = map({
  within: optional(duration, "How long what is in flight may take.", SHUTDOWN_WITHIN),
  delay: optional(
    duration,
    "How long requests are still accepted while /readyz is red, for load balancers.",
    "0s",
  ),
});

const shutdown = z
  .union(
    [
      duration.transform((within) => ({
        within,
        delay: shutdownMap.shape.delay.parse(undefined),
      })),
      shutdownMap,
    ],
    "must be a duration such as 500ms, 30s, 10m or 1h, or a map of within and delay",
  )
  .transform(({ within, delay }) => ({ withinMs: within, delayMs: delay }));

const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

const ACCESS_FORMATS = ["json", "combined"] as const;

/** A log of the requests that were answered. */
interface AccessSettings {
  readonly format: (typeof ACCESS_FORMATS)[number];
  /** Absolute path; null: standard output. */
  readonly file: string | null;
  /** Whether the query of a request is told. */
  readonly query: boolean;
}

const accessMap = map({
  format: optional(word(ACCESS_FORMATS), "JSON lines, or Combined Log Format and more.", "json"),
  file: optional(
    plainText.min(1, "must be the path of a file"),
    "Where, in place of standard output; it is opened anew at each reload (SIGHUP).",
  ),
  query: optional(
    flag,
    "Whether queries are told, which may hold what is nobody's business.",
    false,
  ),
});

const access = z.union(
  [
    word(["off", ...ACCESS_FORMATS]).transform((format) =>
      format === "off" ? null : accessMap.parse({ format }),
    ),
    accessMap,
  ],
  "must be off, json or combined, or a map of format, file and query",
);

const includedFile = plainText.min(1, "must be the path of a file");
const include = z.union(
  [includedFile, listOf(includedFile).max(MAX_INCLUDED, `must be at most ${MAX_INCLUDED} files`)],
  "must be the path of a file, or a list of them",
);

/** The whole file. */
export const documentSchema = map({
  include: optional(
    include,
    "Other files of the same form, relative to the folder of this one, whose keys count as if they stood here: maps " +
      "such as routes, upstreams and hosts are joined, and nothing may be said twice. They include no others, and paths in " +
      "them are meant from the folder of this file. Read again when they change.",
  ),
  listen: optional(
    listeners,
    "Where buyers connect: host:port, :port, a port, { address, tls, redirect }, or a list of them.",
    ":8402",
  ),
  sidecar: optional(
    sidecar,
    "For those who keep their own proxy: where it asks what may pass, in place of listen and upstreams.",
  ),
  publicUrl: optional(
    text(readBaseUrl, BASE_URL),
    "The address under which buyers reach the gateway, https in production: the only source of the " +
      "`resource` in a payment. A path prefix is allowed. Required with routes.",
  ),
  hosts: optional(
    hosts,
    "Names that buyers ask by, beside the host of publicUrl; *.NAME is all below it. With the list, an empty one " +
      "too, whoever asks by another name gets 421; IP addresses and localhost are always answered. Without it all are. " +
      "Or a map of names and what is sold under each of them: its own routes, and what it does not inherit of this file.",
  ),
  trustedProxies: optional(
    trustedProxies,
    "Load balancers and proxies before this gateway, as addresses or ranges: only theirs is believed " +
      "what X-Forwarded-For or Forwarded say of the client. Without it: nobody's.",
  ),
  limits: section(limits, "What one client, and all together, may take."),
  shutdown: optional(
    shutdown,
    "After SIGTERM: how long what is in flight may take, or { within, delay }.",
    SHUTDOWN_WITHIN,
  ),
  workers: optional(
    workers,
    "Processes that serve requests: 1 to 128, or auto for one to a core.",
    1,
  ),
  watch: optional(
    flag,
    "Whether this file is read again by itself when it changes; without that `coinslot reload` and SIGHUP do it.",
    true,
  ),
  admin: optional(
    admin,
    "Where /metrics, /livez, /readyz, /payments and /listing are served: host:port or { address, timeline }; never the " +
      "public port. Without it: nowhere.",
  ),
  upstream: optional(onlyUpstream, "The backend, where there is only one; it is named default."),
  upstreams: optional(
    upstreams,
    "The backends by name. Routes that name none mean the one named default, or the only one.",
  ),
  headers: optional(
    map({
      allow: optional(
        allowedNames,
        "Names of the client's header fields that cross, beside those that HTTP needs (of bodies, conditions, " +
          "ranges, CORS and WebSockets). Without it: all but those that never cross.",
      ),
    }),
    "Header fields on the way to every upstream that has no such list of its own.",
  ),
  payTo: optional(
    payees,
    "Who is paid: one address where one family of networks is accepted, or { evm, solana }.",
  ),
  accept: optional(
    listOf(acceptEntry),
    "In which networks and tokens routes are paid, in the order that buyers see; Solana comes last. " +
      "A name stands for the network's USDC.",
  ),
  assets: optional(
    assets,
    "Tokens beyond the built-in USDC of each network, by symbol and then by network.",
  ),
  payers: section(payers, "Who may not pay, or who alone may."),
  members: section(members, MEMBERS_USAGE),
  sessions: section(sessions, "For how long who has signed in is known."),
  credits: optional(
    credits,
    "What buyers can prepay, and spend on routes without a payment for each request: { packs: [$1, $5] }. A balance belongs to " +
      "the address that has paid, on all networks of one family. Without it: nothing.",
  ),
  passes,
  facilitator: section(
    facilitator,
    "Who settles payments: the URL of a facilitator, or a map of embedded and remote ones.",
  ),
  routes: optional(
    routes,
    "What costs what. A key is `[METHODS ]/pattern`: `:name` is one segment, `*` at the end the rest. " +
      "The most specific pattern wins, whatever the order. Values: free, deny, $0.01 or a block.",
  ),
  mode: optional(
    word(MODES),
    "`shadow` for all routes that say nothing else: what would be sold passes and is not charged, to see what it would " +
      "have earned (`coinslot forecast`). `sell` to begin.",
    "sell",
  ),
  unmatched: optional(
    word(["deny", "free"]),
    "What happens to every other request: deny (404) or free. Required with routes.",
  ),
  support: optional(
    contact,
    "Where buyers can ask you for help: an email address or the URL of a page; each 402, each answer that was " +
      "paid for and each fault of the gateway tells it (Link, help). Default: discovery.contact.",
  ),
  discovery: section(discovery, "Where the priced routes are published."),
  paywall: section(paywall, "What people see who open a priced URL in a browser."),
  refunds: optional(
    refunds,
    "How refunds are sent, by `coinslot payments --resolve KEY --refund`, `--refund-credits PAYER` and, where automatic says so, by themselves. " +
      "Without it: you send them by other means.",
  ),
  webhooks: optional(
    webhooks,
    "Who is told what has happened, by name: { url, secrets, events }. Each message is posted at least once, in order for " +
      "each payment, and signed as Standard Webhooks has it; what fails is tried again for three days.",
  ),
  store: optional(
    store,
    "What was paid and delivered: sqlite:PATH for one process, or postgres://… for several, or " +
      "{ url, keep, archive }. Back it up.",
    "sqlite:./data/coinslot.db",
  ),
  logging: section(
    map({
      level: optional(word(LOG_LEVELS), "The least severe of what is logged.", "info"),
      format: optional(word(["json", "pretty"]), "JSON lines, or lines for people.", "json"),
      access: optional(
        access,
        "A line for each request that was answered, with its client, what was paid and by which payment: off, json, " +
          "combined, or { format, file, query }.",
        "off",
      ),
    }),
    "What is logged, on standard output where nothing else is said.",
  ),
  metrics: section(
    map({
      routeHistograms: optional(
        flag,
        "Whether durations are told of each route (some 60 time series for each that is asked for), or of all together.",
        true,
      ),
    }),
    "What /metrics tells.",
  ),
  cors: optional(
    cors,
    "Which web pages may read the answers: none (false), any (true), or { origins: [https://…] }.",
    false,
  ),
  mcp: optional(mcp, MCP_USAGE, false),
  protocol: section(
    map({
      v1: optional(flag, "X-PAYMENT, and what is asked for in the body of a 402.", true),
      v2: optional(
        flag,
        "PAYMENT-SIGNATURE, and what is asked for in PAYMENT-REQUIRED; the page that sells to browsers pays so where it is on.",
        true,
      ),
    }).refine(({ v1, v2 }) => v1 || v2, "must leave one version on: nobody could pay"),
    "The versions of the payment protocol that buyers may speak.",
  ),
  repeat: optional(repeat, REPEAT_USAGE, { for: "10m", times: 10 }),
  paymentIdentifier: optional(
    word(IDENTIFIER_USES),
    "Whether buyers who speak version 2 name their purchases (extension payment-identifier): the same name with " +
      "another payment or for another request is 409 and not charged, so that nobody pays twice who signs anew after " +
      "a lost answer. optional, or required (400 without one; payments of version 1 have none and are taken). " +
      "It adds about 400 bytes to each PAYMENT-REQUIRED.",
    "off",
  ),
}).meta({
  title: "coinslot configuration",
  description: "What coinslot sells, for how much, who is paid and who settles.",
});

/** The document with every single value read, and what is not written filled in. */
export type ConfigDocument = z.output<typeof documentSchema>;
