/** What there is to say of a file that is accepted, by what its routes come to. */
import { routePath, sitesOf, type Config, type Remark } from "../config/config.ts";
import { DeclaredInput } from "../gateway/declared-input.ts";
import { listed } from "./route-quotes.ts";
import { reviewQuotes } from "./quote-review.ts";
import { toolsOf } from "../tools/tools.ts";

export function reviewConfig(config: Config): readonly Remark[] {
  return [...reviewQuotes(config), ...reviewInputs(config), ...reviewTools(config)];
}

/** Which of the listed routes agents do not meet, and why. */
function reviewTools(config: Config): readonly Remark[] {
  return sitesOf(config).flatMap((site): Remark[] => {
    if (site.mcp === null) return [];
    const byKey = new Map(site.routes.map((route) => [route.key, route]));
    return toolsOf(site).others.flatMap(({ route: key, why }): Remark[] => {
      const route = byKey.get(key);
      const isListed = route?.action.kind === "priced" && route.action.discoverable;
      if (route === undefined || !isListed) return [];
      const fault = { code: "no-tool", message: `is no tool of mcp: ${why}` } as const;
      return [{ severity: "note", path: routePath(route), part: "key", fault }];
    });
  });
}

/** What `input` declares and nobody checks, since it is no schema: its buyers pay for what the backend refuses. */
function reviewInputs({ routes }: Config): readonly Remark[] {
  return routes.flatMap((route): Remark[] => {
    const { action, segments } = route;
    if (action.kind !== "priced" || !action.checkInput) return [];
    const { unchecked } = new DeclaredInput(action.input, segments);
    if (unchecked.length === 0) return [];
    const message = `${listed(unchecked)} cannot be checked before a payment is taken: what is declared is no JSON Schema`;
    const fault = {
      code: "unchecked-input",
      message,
      suggestion:
        "write a type of JSON (string, number, integer, boolean, array, object), or a schema that stands alone",
    } as const;
    return [{ severity: "warning", path: [...routePath(route), "input"], part: "key", fault }];
  });
}
