/** Which of our routes an entry of a listing is, or whatever else names a resource by its URL. */
import { sitesOf, type Config, type RouteSettings } from "../../config/config.ts";
import { Router } from "../../gateway/paths/router.ts";

/** A resource, and how it is asked for. */
export interface Named {
  readonly resource: string;
  /** Upper case; undefined: nobody says. */
  readonly method: string | undefined;
}

/** What of a configuration tells which routes there are, and where. */
type Sold = Pick<Config, "routes" | "sites" | "publicUrl">;

export class EntryFinder {
  /** By the names of the sites. */
  readonly #sites: ReadonlyMap<string, SiteFinder>;

  constructor(config: Sold) {
    this.#sites = new Map(sitesOf(config).map((each) => [each.site, new SiteFinder(each)]));
  }

  byRoute<T extends Named>(entries: readonly T[]): ReadonlyMap<RouteSettings, readonly T[]> {
    return new Map([...this.#sites.values()].flatMap((each) => [...each.byRoute(entries)]));
  }

  /** @param path as payments are for it: behind the name of its site, where that has one */
  routeOf(method: string, path: string): RouteSettings | undefined {
    const slash = path.indexOf("/");
    return this.#sites.get(path.slice(0, slash))?.routeOf(method, path.slice(slash));
  }
}

class SiteFinder {
  readonly #publicUrl: string;
  readonly #router: Router<RouteSettings>;
  readonly #routes: readonly RouteSettings[];
  /** What an entry may mean that names no method, GET before all others. */
  readonly #methods: readonly string[];

  constructor({ routes, publicUrl }: Pick<Sold, "routes" | "publicUrl">) {
    this.#publicUrl = publicUrl ?? "";
    this.#routes = routes;
    this.#methods = [...new Set(["GET", ...routes.flatMap(({ methods }) => methods ?? [])])];
    const values = routes.map((route) => {
      return { methods: route.methods, pattern: route.pattern, value: route };
    });
    // What is close to a price is not the question here.
    this.#router = new Router(values, { guarded: () => false, unmatchedGuarded: false });
  }

  byRoute<T extends Named>(entries: readonly T[]): ReadonlyMap<RouteSettings, readonly T[]> {
    const found = new Map<RouteSettings, T[]>();
    const templates = new Map<string, RouteSettings[]>();
    for (const route of this.#routes) {
      templates.set(route.pattern, [...(templates.get(route.pattern) ?? []), route]);
    }
    for (const entry of entries) {
      const path = this.#pathOf(entry.resource);
      if (path === undefined) continue;
      const methods = entry.method === undefined ? this.#methods : [entry.method];
      const isOf = ({ methods: own }: RouteSettings) =>
        own?.some((each) => methods.includes(each)) ?? true;
      const named = templates.get(path)?.find(isOf);
      const route = named ?? methods.map((each) => this.routeOf(each, path)).find(Boolean);
      if (route !== undefined) found.set(route, [...(found.get(route) ?? []), entry]);
    }
    return found;
  }

  routeOf(method: string, path: string): RouteSettings | undefined {
    const match = this.#router.match(method, path);
    return match.kind === "route" ? match.value : undefined;
  }

  /** Of what is ours; undefined of what is somebody else's. */
  #pathOf(resource: string): string | undefined {
    const [url = ""] = resource.split(/[?#]/);
    if (!url.startsWith(`${this.#publicUrl}/`) && url !== this.#publicUrl) return undefined;
    const path = url.slice(this.#publicUrl.length);
    return path === "" ? "/" : path;
  }
}
