/** Routes that are sold, as the documents for programs describe them. */
import {
  toldMeter,
  waysFacts,
  type Config,
  type PassGround,
  type PricedAction,
  type RouteSettings,
} from "../config/config.ts";
import type { CatalogueEntry, PublicTerms } from "../discovery/discovery.ts";
import type { Purchase } from "../discovery/pointers.ts";
import { templateVariables, writeTemplate } from "../discovery/template.ts";
import { Router } from "../gateway/paths/router.ts";
import type { PublishedFate } from "../openapi/published.ts";
import type { SoldRoute } from "../openapi/sold-operation.ts";
import type { NetworkStates, Offer, Offers } from "../payments/sale/offers.ts";
import type { StopSource } from "../payments/sale/stops.ts";
import { clientCode, priceCommand } from "../web/catalogue-command.ts";
import { declaredExample } from "../x402/declared-example.ts";
import { flowOf, requirementsV2, resourceV2 } from "../x402/version-2.ts";
import { X402_VERSION, X402_VERSION_2 } from "../x402/x402.ts";
import { routeView } from "./catalogue.ts";

/** What HEAD and OPTIONS of an operation cost is nothing that a description says. */
const NO_OFFERS: SoldRoute["accepts"] = [];

/** A route of the listing, as it is found. */
export interface ListedRoute {
  readonly route: RouteSettings;
  readonly action: PricedAction;
  readonly offers: readonly Offer[];
  readonly terms: PublicTerms;
}

export interface SoldEntry {
  readonly route: RouteSettings;
  readonly action: PricedAction;
  entry: CatalogueEntry;
  /** How it is had beside a payment for each request: sentences. */
  readonly ways: readonly string[];
  readonly offers: Offers;
}

/** What becomes of requests, as far as buyers are told. */
export class Fates {
  readonly #router: Router<PublishedFate>;
  readonly #unmatched: PublishedFate;

  constructor(
    { routes, unmatched }: Pick<Config, "routes" | "unmatched">,
    payable: readonly SoldEntry[],
  ) {
    const sold = new Map(payable.map((each) => [each.route, each]));
    const values = routes.map((route) => {
      const { methods, pattern } = route;
      return { methods, pattern, value: fateOf(route, sold.get(route)) };
    });
    this.#unmatched = { kind: unmatched === "free" ? "free" : "hidden" };
    this.#router = new Router(values, {
      guarded: ({ kind }) => kind !== "free",
      unmatchedGuarded: unmatched === "deny",
    });
  }

  of(method: string, path: string): PublishedFate {
    const match = this.#router.match(method, path);
    if (match.kind === "route") return match.value;
    return match.kind === "unmatched" ? this.#unmatched : { kind: "hidden" };
  }
}

function fateOf({ action }: RouteSettings, sold: SoldEntry | undefined): PublishedFate {
  if (action.kind === "free") return { kind: "free" };
  if (sold === undefined) return { kind: "hidden" };
  const accepts = sold.offers.accepts(sold.entry.resource);
  return { kind: "sold", accepts, least: leastOf(sold.action) };
}

/** In dollars, without their sign. */
function leastOf({ computed, metered }: PricedAction): string | undefined {
  return metered === null ? computed?.from.slice(1) : "0";
}

export function soldRoute({ route, action, entry, offers, ways }: SoldEntry): SoldRoute {
  const { description, mimeType, input, outputSchema } = action;
  const { methods, pattern } = route;
  return {
    methods,
    path: writeTemplate(pattern, ({ name }) => `{${name}}`),
    variables: templateVariables(pattern).map(({ name }) => name),
    description,
    ways,
    mimeType,
    input,
    outputSchema,
    least: leastOf(action),
    tags: entry.service?.tags ?? [],
    accepts: offers.areNone ? NO_OFFERS : offers.accepts(entry.resource),
  };
}

/** Of the first route that can be asked for as it is; null: of none. */
export function purchaseOf(
  sold: readonly SoldEntry[],
  { publicUrl, protocol }: Pick<Config, "publicUrl" | "protocol">,
): Purchase | null {
  const version = protocol.v1 ? X402_VERSION : X402_VERSION_2;
  for (const { entry, route, action, offers } of sold) {
    const view = routeView({ route, action }, publicUrl ?? "");
    const { url } = view;
    if (url === null || offers.areNone) continue;
    const accepts = offers.accepts(url);
    // In outline: what the listing says of the exchange is not said once more.
    const outlined = accepts.map((each) => ({ ...each, outputSchema: undefined }));
    const [first] = accepts;
    const terms =
      version === X402_VERSION || first === undefined
        ? { x402Version: version, accepts: outlined }
        : {
            x402Version: version,
            resource: resourceV2(first),
            accepts: accepts.map((each) => requirementsV2(each, flowOf(entry.isSettledAfter))),
          };
    const request = priceCommand({ ...view, url });
    const program = clientCode({ ...view, url }, version);
    const { outputSchema } = entry.accepts[0] ?? {};
    return { request, terms, program, sample: declaredExample(outputSchema?.["output"]) };
  }
  return null;
}

/** A network that is closed may be open again before somebody comes who has read the listing. */
export function onlyStopped(stopped: StopSource): NetworkStates {
  return {
    get revision() {
      return stopped.revision;
    },
    get stops() {
      return stopped.stops;
    },
    of: () => "open",
  };
}

/** Where each request has its own price, the ways to pay tell the most of it. What the file says itself comes first. */
export function metadataOf(
  route: RouteSettings,
  action: PricedAction,
  ground: PassGround,
): PricedAction["metadata"] {
  const { metadata, computed, metered } = action;
  return {
    ...(metered !== null && { meter: toldMeter(metered) }),
    ...(computed !== null && { price: { from: computed.from, to: computed.to } }),
    ...waysFacts(route, action, ground),
    ...metadata,
  };
}

export function isTemplate({ segments }: RouteSettings): boolean {
  return segments.some(({ kind }) => kind !== "static");
}
