/** What the configuration says of a free route that its requests are judged by: what it would cost, and what calls of its tools do. */
import {
  priceOf,
  shadowPriceOf,
  type Config,
  type RouteAction,
  type RouteSettings,
  type ToolSettings,
} from "../config/config.ts";
import type { RoutePlan } from "../gateway/decision.ts";
import { ToolTable, type ToolTableTerms } from "../gateway/mcp/tool-table.ts";
import { dollarsText } from "../pricing/computed-price.ts";
import { computedPrice } from "../publishing/computed.ts";

/** What is known of a free route beside what answers it. */
export function freeTerms(
  route: RouteSettings,
  { tools }: Extract<RouteAction, { kind: "free" }>,
  config: Pick<Config, "routes">,
): Pick<Extract<RoutePlan, { kind: "free" }>, "shadow" | "tools"> {
  const shadow = shadowOf(route);
  return {
    ...(shadow !== null && { shadow }),
    ...(tools !== undefined && { tools: new ToolTable(toolTerms(route, tools, config)) }),
  };
}

/** What calls cost at a route to a server of tools. */
function toolTerms(
  { key }: RouteSettings,
  terms: ToolSettings,
  { routes }: Pick<Config, "routes">,
): ToolTableTerms {
  const tools = routes.flatMap((route) => {
    const { tool, pattern, action } = route;
    if (tool?.of !== key) return [];
    const price = action.kind === "priced" ? priceOf(route) : null;
    return [{ name: tool.name, path: pattern, isDenied: action.kind === "deny", price }];
  });
  return { ...terms, tools };
}

/** Where its price is computed from the body, which passes unread, it is told between what. */
function shadowOf(
  route: RouteSettings,
): NonNullable<Extract<RoutePlan, { kind: "free" }>["shadow"]> | null {
  const range = shadowPriceOf(route);
  const { action } = route;
  if (action.kind !== "free" || action.shadow === undefined) return range;
  const price = computedPrice(route, action.shadow);
  if (price === undefined || price.readsBody) return range;
  return (request) => {
    const own = price.priceOf(request);
    return own.ok ? dollarsText(own.value) : "no price";
  };
}
