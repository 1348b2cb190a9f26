/** A route as a request that can be sent: with the values that its declaration gives, and no template. */
import { declaredText } from "../x402/declared-example.ts";
import { isRecord } from "../x402/json.ts";
import { writeTemplate } from "./template.ts";

type Values = Readonly<Record<string, unknown>>;

export interface ExampleRequest {
  /** Path and query; `{name}` in place of what nothing is known for. */
  readonly target: string;
  /** Names of what nothing is known for, of those that have to be there. */
  readonly missing: readonly string[];
}

/** `path`: with `:name` and `*` as the route has it. */
export function exampleRequest(
  path: string,
  {
    pathParams = {},
    queryParams = {},
  }: { readonly pathParams?: Values; readonly queryParams?: Values },
): ExampleRequest {
  const missing: string[] = [];
  const filled = writeTemplate(path, ({ name, isRest }) => {
    const text = declaredText(Object.hasOwn(pathParams, name) ? pathParams[name] : undefined);
    if (text === undefined) {
      missing.push(name);
      return `{${name}}`;
    }
    const parts = isRest ? text.split("/") : [text];
    return parts.map(encodeURIComponent).join("/");
  });
  const query = Object.entries(queryParams).flatMap(([name, declared]) => {
    if (!isRecord(declared) || declared["required"] !== true) return [];
    const text = declaredText(declared);
    if (text === undefined) missing.push(name);
    return `${encodeURIComponent(name)}=${text === undefined ? `{${name}}` : encodeURIComponent(text)}`;
  });
  return { target: query.length === 0 ? filled : `${filled}?${query.join("&")}`, missing };
}
