/** `upstream` and `upstreams`: the backends, and which of them a route means that names none. */
import type { Context } from "../reading/context.ts";
import { z } from "zod";
import { ORIGIN } from "../reading/forms.ts";
import { fault, readOrigin } from "../reading/reading.ts";
import { described, map, matching, named, text } from "../reading/shapes.ts";
import { command } from "./command.ts";
import { PROXY_UPSTREAM } from "../listener/sidecar.ts";
import { didYouMean } from "../reading/suggestion.ts";
import type { Path } from "../reading/tree.ts";
import { resolveAllowed, type allowedNames } from "./upstream-headers.ts";
import { resolveUpstream, upstream, type Upstream } from "./upstream.ts";

const DEFAULT_NAME = "default";
const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const NAME_FORM = "a name has up to 64 letters, digits, dashes and underscores";

/** The only backend, as one would write it under `upstreams`: its URL, or a command alone. */
export const onlyUpstream = z.union(
  [
    text(readOrigin, ORIGIN).transform((url) => upstream.parse({ targets: [url] })),
    map({ command: described(command, "What is started, as under upstreams.") }).transform(
      (written): z.output<typeof upstream> => ({ ...upstream.parse({}), ...written }),
    ),
  ],
  "must be a URL, or { command: [node, server.js] }",
);

export const upstreams = named(upstream, matching(NAME, NAME_FORM));

/** The keys of the file that say something of backends. */
interface WrittenUpstreams {
  readonly upstream?: z.output<typeof onlyUpstream>;
  readonly upstreams?: z.output<typeof upstreams>;
  readonly headers?: { readonly allow?: z.output<typeof allowedNames> };
}

export class Upstreams {
  readonly list: readonly Upstream[];
  readonly #context: Context;
  /** Those that could not be read too: a route that names one of them is not to blame. */
  readonly #names: readonly string[];

  constructor(document: WrittenUpstreams, context: Context) {
    this.#context = context;
    const { tree, problems } = context;
    const several = tree.keys(["upstreams"]);
    const single = tree.has(["upstream"]) ? [DEFAULT_NAME] : [];
    if (single.length > 0 && several.includes(DEFAULT_NAME)) {
      const message = "`upstream` and `upstreams.default` are the same backend, given twice";
      problems.errorAtKey(["upstreams", DEFAULT_NAME], fault("duplicate-upstream", message));
    }
    this.#names = [...new Set([...single, ...several])];
    this.list = readUpstreams(document, context);
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

function readUpstreams(document: WrittenUpstreams, context: Context): readonly Upstream[] {
  const read: Upstream[] = [];
  if (document.upstream !== undefined) {
    read.push(resolveUpstream(DEFAULT_NAME, document.upstream, { path: ["upstream"], context }));
  }
  for (const [name, written] of Object.entries(document.upstreams ?? {})) {
    if (!NAME.test(name)) {
      context.problems.errorAtKey(["upstreams", name], fault("bad-value", NAME_FORM));
    }
    read.push(resolveUpstream(name, written, { path: ["upstreams", name], context }));
  }
  const allow = resolveAllowed(document.headers?.allow, ["headers", "allow"], context);
  return read.map((each) => {
    const { headers } = each;
    return { ...each, headers: { ...headers, allow: headers.allow ?? allow } };
  });
}
