/**
 * What changes about a request on its way to a backend: path, Host, and header lines.
 *
 * The path that was priced is canonical (`target.ts`), and so is what is sent. What is stripped ends on the
 * border of a segment; nothing is decoded, joined or repaired; and no two paths become one: each begins with
 * what is stripped, which the configuration makes sure of, and one that does not is refused. So what a
 * request gets is decided by its price's path alone. `resource` and the listing keep the public path.
 */
import { NameFilter } from "../../message/field-lines.ts";
import type { InboundRequest } from "../../message/inbound.ts";
import type { UpstreamExchange, UpgradeExchange } from "../upstream.ts";

/** Canonical, no slash at the end; "" changes nothing. */
export interface PathRule {
  readonly strip: string;
  readonly prefix: string;
}

export type HostRule =
  | { readonly kind: "upstream" }
  | { readonly kind: "preserve" }
  | { readonly kind: "name"; readonly name: string };

export interface RewritingOptions {
  readonly path: PathRule;
  readonly host: HostRule;
  /** Raw `name, value` pairs for the backend, in place of the client's of the same name. */
  readonly set: readonly string[];
  /** Lower-case names of lines that cross neither to the backend nor back. */
  readonly remove: readonly string[];
  /** Lower-case names of the client's lines that cross, beside those that HTTP needs; null: all but those that never do. */
  readonly allow: readonly string[] | null;
}

export class Rewriting {
  readonly #options: RewritingOptions;
  readonly #removed: ReadonlySet<string>;
  readonly #names: { readonly names?: NameFilter };
  readonly #isNone: boolean;

  constructor(options: RewritingOptions) {
    this.#options = options;
    this.#removed = new Set(options.remove);
    const { path, host, set, remove, allow } = options;
    this.#names = allow === null ? {} : { names: NameFilter.allowing(allow) };
    this.#isNone =
      path.strip === "" &&
      path.prefix === "" &&
      host.kind === "upstream" &&
      set.length === 0 &&
      remove.length === 0 &&
      allow === null;
  }

  /** The exchange as the backend gets it; null where its path is outside of what the backend serves. */
  apply<Carried extends UpstreamExchange | UpgradeExchange>(exchange: Carried): Carried | null {
    if (this.#isNone) return exchange;
    const { path, host, set } = this.#options;
    const { removed } = exchange;
    const target = rewriteTarget(exchange.target, path);
    if (target === null) return null;
    return {
      ...exchange,
      ...this.#names,
      target,
      host: hostFor(exchange.request, host),
      requestHeaders:
        set.length === 0 ? exchange.requestHeaders : [...exchange.requestHeaders, ...set],
      removed: removed === undefined ? this.#removed : new Set([...this.#removed, ...removed]),
    };
  }
}

const SLASH = 0x2f;
const QUESTION_MARK = 0x3f;

/** Null for a target (canonical path and query) that does not begin with what is stripped. */
export function rewriteTarget(target: string, { strip, prefix }: PathRule): string | null {
  if (strip === "") return prefix + target;
  if (!target.startsWith(strip)) return null;
  const next = target.charCodeAt(strip.length);
  if (next === SLASH) return prefix + target.slice(strip.length);
  const isWhole = target.length === strip.length || next === QUESTION_MARK;
  // Without a prefix nothing would be left of it but a path that another one has.
  return isWhole && prefix !== "" ? prefix + target.slice(strip.length) : null;
}

/** RFC 9110 section 7.2, narrowly: what a backend cannot read as anything but a host. */
const HOST =
  /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/;

/** What Host says; null: the target's own name. */
export function hostFor(
  { headers }: Pick<InboundRequest, "headers">,
  rule: HostRule,
): string | null {
  switch (rule.kind) {
    case "upstream":
      return null;
    case "name":
      return rule.name;
    case "preserve": {
      const { host } = headers;
      return host !== undefined && HOST.test(host) ? host : null;
    }
  }
}
