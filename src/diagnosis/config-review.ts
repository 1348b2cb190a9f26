/** What there is to say of a file that is accepted, by what its routes come to. */
import { routePath, type Config, type Remark } from "../config/config.ts";
import { DeclaredInput } from "../gateway/declared-input.ts";
import { listed } from "./route-quotes.ts";
import { reviewQuotes } from "./quote-review.ts";

export function reviewConfig(config: Config): readonly Remark[] {
  return [...reviewQuotes(config), ...reviewInputs(config)];
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
