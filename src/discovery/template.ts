/**
 * A pattern route in words that programs know: the listing has it as one entry whose `resource` keeps the
 * route's own `:param` and `*`, so its metadata says how URLs are made of it.
 */

/** One segment of a template. */
type Part = { readonly text: string } | { readonly name: string; readonly isRest: boolean };

export interface TemplateDescription {
  /** The path as the route has it: `/reports/:id`. */
  readonly routeTemplate: string;
  /** Absolute, RFC 6570: `https://api.example.com/reports/{id}`; `{+rest}` may hold slashes. */
  readonly uriTemplate: string;
  /** What each variable stands for, by its name. */
  readonly pathParams: Readonly<Record<string, unknown>>;
}

/** The name of what `*` stands for, where no parameter has it. */
const REST = "rest";
const ONE_SEGMENT = { type: "string", required: true };
const REST_OF_PATH = { type: "string", description: "The rest of the path, slashes included." };

/**
 * Describes a template. `resource` ends with `path`; `known` is what the configuration says of parameters.
 */
export function describeTemplate(
  resource: string,
  path: string,
  known: Readonly<Record<string, unknown>> = {},
): TemplateDescription {
  const variables = templateVariables(path);
  const origin = resource.slice(0, resource.length - path.length);
  const params = variables.map(({ name, isRest }) => {
    const usual = isRest ? REST_OF_PATH : ONE_SEGMENT;
    return [name, Object.hasOwn(known, name) ? known[name] : usual] as const;
  });
  return {
    routeTemplate: path,
    uriTemplate:
      origin + writeTemplate(path, ({ name, isRest }) => `{${isRest ? "+" : ""}${name}}`),
    pathParams: Object.fromEntries(params),
  };
}

/** The variables of a path template in their order. */
export function templateVariables(
  path: string,
): readonly { readonly name: string; readonly isRest: boolean }[] {
  return partsOf(path).flatMap((part) => ("name" in part ? [part] : []));
}

/** The path with each variable written by `write`. */
export function writeTemplate(
  path: string,
  write: (variable: { readonly name: string; readonly isRest: boolean }) => string,
): string {
  const parts = partsOf(path).map((part) => ("name" in part ? write(part) : part.text));
  return parts.join("/");
}

function partsOf(path: string): readonly Part[] {
  const segments = path.split("/");
  const names = new Set(
    segments.filter((text) => text.startsWith(":")).map((text) => text.slice(1)),
  );
  return segments.map((text, index) => {
    if (text.startsWith(":")) return { name: text.slice(1), isRest: false };
    if (text === "*" && index === segments.length - 1)
      return { name: freeName(names), isRest: true };
    return { text };
  });
}

function freeName(taken: ReadonlySet<string>): string {
  let name = REST;
  for (let number = 2; taken.has(name); number += 1) name = `${REST}${number}`;
  return name;
}
