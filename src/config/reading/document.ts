/**
 * The shape of the document, as one schema: which keys there are and what stands under each. Values are
 * read here one by one; what they mean together is decided by `resolve.ts` and its neighbours. All
 * messages complete a sentence about the value that they point at. What the keys mean is written here,
 * too, for editors.
 */
import { z } from "zod";
import { discovery } from "../routes/discovery-shape.ts";
import { facilitator } from "../facilitator/facilitator-shape.ts";
import { BASE_URL, ORIGIN } from "./forms.ts";
import { limits, trustedProxies } from "../limits.ts";
import { admin, hostNames, listener } from "../listener/listener-shape.ts";
import { paywallPage } from "../routes/paywall-page.ts";
import { acceptEntry, assets, payees } from "../routes/payment-shape.ts";
import { readBaseUrl, readBrowserOrigin, readOrigin } from "./reading.ts";
import { route, ROUTE_KEY, type priceBlock } from "../routes/route-shape.ts";
import { LOG_LEVELS } from "../settings.ts";
import { duration, flag, listOf, map, matching, named, optional, text, word } from "./shapes.ts";
import { sidecar } from "../listener/sidecar.ts";
import { store } from "../store.ts";
import { allowedNames } from "../upstream/upstream-headers.ts";
import { upstream, UPSTREAM_NAME } from "../upstream/upstream-shape.ts";
import { workers } from "../listener/workers.ts";

const shutdown = z.union(
  [
    duration,
    map({
      within: optional(duration, "How long what is in flight may take.", "30s"),
      delay: optional(
        duration,
        "How long requests are still accepted while /readyz is red, for load balancers.",
        "0s",
      ),
    }),
  ],
  "must be a duration such as 500ms, 30s, 10m or 1h, or a map of within and delay",
);

const cors = z.union(
  [
    flag,
    map({
      origins: listOf(
        text(
          readBrowserOrigin,
          matching(/^https?:\/\/[^\s\\/?#]+$/, "must be an origin: https://app.example.com"),
        ),
      ).meta({ description: "Origins whose pages may read the answers." }),
    }),
  ],
  "must be true, false or { origins }",
);

/** The whole file. */
export const documentSchema = map({
  listen: optional(
    z.union([listener, listOf(listener)], "must be an address or a list of addresses"),
    "Where buyers connect: host:port, :port, a port, { address, tls }, or a list of them.",
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
    hostNames,
    "Names that buyers ask by, beside the host of publicUrl; *.NAME is all below it. With the list, an empty one " +
      "too, whoever asks by another name gets 421; IP addresses and localhost are always answered. Without it all are.",
  ),
  trustedProxies: optional(
    trustedProxies,
    "Load balancers and proxies before this gateway, as addresses or ranges: only theirs is believed " +
      "what X-Forwarded-For or Forwarded say of the client. Without it: nobody's.",
  ),
  limits: optional(limits, "What one client, and all together, may take."),
  shutdown: optional(
    shutdown,
    "After SIGTERM: how long what is in flight may take, or { within, delay }.",
    "30s",
  ),
  workers: optional(
    workers,
    "Processes that serve requests: 1 to 128, or auto for one to a core.",
    1,
  ),
  admin: optional(
    admin,
    "Where /metrics, /livez, /readyz, /payments and /listing are served: host:port or { address, timeline }; never the " +
      "public port. Without it: nowhere.",
  ),
  upstream: optional(
    text(readOrigin, ORIGIN),
    "The backend, where there is only one; it is named default.",
  ),
  upstreams: optional(
    named(upstream, UPSTREAM_NAME),
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
  facilitator: optional(
    facilitator,
    "Who settles payments: the URL of a facilitator, or a map of embedded and remote ones.",
  ),
  routes: optional(
    named(route, ROUTE_KEY),
    "What costs what. A key is `[METHODS ]/pattern`: `:name` is one segment, `*` at the end the rest. " +
      "The most specific pattern wins, whatever the order. Values: free, deny, $0.01 or a block.",
  ),
  unmatched: optional(
    word(["deny", "free"]),
    "What happens to every other request: deny (404) or free. Required with routes.",
  ),
  discovery: optional(discovery, "Where the priced routes are published."),
  paywall: optional(paywallPage, "What people see who open a priced URL in a browser."),
  store: optional(
    store,
    "What was paid and delivered: sqlite:PATH for one process, or postgres://… for several, or " +
      "{ url, keep, archive }. Back it up.",
    "sqlite:./data/coinslot.db",
  ),
  logging: optional(
    map({
      level: optional(word(LOG_LEVELS), "The least severe of what is logged.", "info"),
      format: optional(word(["json", "pretty"]), "JSON lines, or lines for people.", "json"),
    }),
    "What is logged on standard output.",
  ),
  cors: optional(
    cors,
    "Which web pages may read the answers: none (false), any (true), or { origins: [https://…] }.",
    false,
  ),
}).meta({
  title: "coinslot configuration",
  description: "What coinslot sells, for how much, who is paid and who settles.",
});

/** The document with every single value read, and nothing resolved. */
export type ConfigDocument = z.output<typeof documentSchema>;
export type PriceBlock = z.output<typeof priceBlock>;
export type AcceptEntry = z.output<typeof acceptEntry>;
export type Payees = z.output<typeof payees>;
export type Action = z.output<typeof route>;
