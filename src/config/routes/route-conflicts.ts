/** Which keys of routes match the same requests. */
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import type { Path } from "../reading/tree.ts";
import type { RouteKey } from "./route-key.ts";

/** Finds keys that match the same requests: the order of a map must not decide between them. */
export class Conflicts {
  readonly #place: Path;
  readonly #context: Context;
  readonly #byShape = new Map<string, { readonly key: string; readonly route: RouteKey }[]>();

  constructor(place: Path, context: Context) {
    this.#place = place;
    this.#context = context;
  }

  check(key: string, route: RouteKey): void {
    const shape = shapeOf(route);
    const earlier = this.#byShape.get(shape) ?? [];
    this.#byShape.set(shape, [...earlier, { key, route }]);
    const rival = earlier.find((each) => methodsOverlap(each.route, route));
    if (rival === undefined) return;
    const where = this.#context.problems.where([...this.#place, rival.key]);
    const message = `matches the same requests as ${JSON.stringify(rival.key)} on ${where}`;
    const hint = "remove one of them, or give them different methods";
    const found = fault("duplicate-route", message, hint);
    this.#context.problems.errorAtKey([...this.#place, key], found);
  }
}

/** The names of parameters do not matter for what a pattern matches. */
export function shapeOf({ segments }: RouteKey): string {
  return segments
    .map((segment) => (segment.kind === "static" ? segment.text : `:${segment.kind}`))
    .join("/");
}

/** Whether one method is served by both; `GET` covers `HEAD`. */
export function methodsOverlap(left: RouteKey, right: RouteKey): boolean {
  if (left.methods === null || right.methods === null) return true;
  const served = new Set(left.methods.flatMap(covered));
  return right.methods.flatMap(covered).some((method) => served.has(method));
}

function covered(method: string): readonly string[] {
  return method === "GET" ? ["GET", "HEAD"] : [method];
}
