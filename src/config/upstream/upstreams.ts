/** `upstream` and `upstreams`: the backends, and which of them a route means that names none. */
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import type { Upstream } from "../settings.ts";
import { PROXY_UPSTREAM } from "../listener/sidecar-settings.ts";
import { didYouMean } from "../reading/suggestion.ts";
import type { Path } from "../reading/tree.ts";
import { resolveAllowed } from "./upstream-headers.ts";
import { resolveUpstream } from "./upstream-settings.ts";

const DEFAULT_NAME = "default";

export class Upstreams {
  readonly list: readonly Upstream[];
  readonly #context: Context;
  /** Those that could not be read too: a route that names one of them is not to blame. */
  readonly #names: readonly string[];

  constructor(context: Context) {
    this.#context = context;
    const { tree, problems } = context;
    const written = tree.find(["upstreams"]);
    const several = written?.kind === "mapping" ? [...written.entries.keys()] : [];
    const single = tree.has(["upstream"]) ? [DEFAULT_NAME] : [];
    if (single.length > 0 && several.includes(DEFAULT_NAME)) {
      const message = "`upstream` and `upstreams.default` are the same backend, given twice";
      problems.errorAtKey(["upstreams", DEFAULT_NAME], fault("duplicate-upstream", message));
    }
    this.#names = [...new Set([...single, ...several])];
    this.list = readUpstreams(context);
  }

  /** Name of the upstream that a route means; "" after an error. */
  resolve(route: Path, name: string | undefined): string {
    if (this.#context.tree.has(["sidecar"])) return PROXY_UPSTREAM;
    if (name !== undefined) return this.#named(name, [...route, "upstream"]);
    const implied = this.implied();
    if (implied !== null) return implied;
    if (this.#names.length > 0) {
      const message = "there are several upstreams, and none is named default";
      const hint = `name one of them default, or one for the route: upstream: ${this.#names[0]}`;
      this.#context.problems.errorAtKey(route, fault("no-upstream", message, hint));
    } else if (this.#context.tree.intact(["upstreams"])) {
      const message = "there is no upstream to which this could lead";
      this.#context.errorOnce(route, fault("no-upstream", message, "add upstream: http://…"));
    }
    return "";
  }

  /** The one named default, or the only one. */
  implied(): string | null {
    if (this.#context.tree.has(["sidecar"])) return PROXY_UPSTREAM;
    if (this.#names.includes(DEFAULT_NAME)) return DEFAULT_NAME;
    return this.#names.length === 1 ? (this.#names[0] ?? null) : null;
  }

  #named(name: string, path: Path): string {
    if (this.#names.includes(name)) return name;
    const hint = didYouMean(name, this.#names);
    const message = "no upstream has this name";
    this.#context.problems.error(path, fault("unknown-upstream", message, hint));
    return "";
  }
}

function readUpstreams(context: Context): readonly Upstream[] {
  const { document, problems } = context;
  const upstreams: Upstream[] = [];
  if (document.upstream !== undefined) {
    upstreams.push(resolveUpstream(DEFAULT_NAME, { targets: [document.upstream] }, context));
  }
  for (const [name, written] of Object.entries(document.upstreams ?? {})) {
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
      const message = "a name has up to 64 letters, digits, dashes and underscores";
      problems.errorAtKey(["upstreams", name], fault("bad-value", message));
    }
    upstreams.push(resolveUpstream(name, written, context));
  }
  const allow = resolveAllowed(document.headers?.allow, ["headers", "allow"], context);
  return upstreams.map((each) => {
    const { headers } = each;
    return { ...each, headers: { ...headers, allow: headers.allow ?? allow } };
  });
}
