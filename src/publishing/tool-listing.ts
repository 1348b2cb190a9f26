/**
 * The listing of what agents meet as tools. It is one of its own, for whoever asks for that type: a program that asks for none
 * takes what is listed for what it can ask for over HTTP.
 */
import { sitesOf, type Config } from "../config/config.ts";
import { TOOL_TYPE } from "../discovery/catalogue.ts";
import {
  createCatalogue,
  type Catalogue,
  type CatalogueEntry,
  type DiscoveryQuery,
} from "../discovery/discovery.ts";
import type { Steps } from "../time/breath.ts";
import { toolSteps, type ToolSet } from "../tools/tools.ts";
import { sampleOf } from "../x402/bazaar.ts";
import type { SoldEntry } from "./described.ts";

type ToolSales = Pick<Config, "routes" | "sites" | "publicUrl" | "sidecar" | "passes" | "mcp">;

/** Where messages are posted, absolute; null: nowhere. */
export function toolsUrl({
  mcp,
  sidecar,
  publicUrl,
}: Pick<Config, "mcp" | "sidecar" | "publicUrl">): string | null {
  return mcp === null || sidecar !== null ? null : `${publicUrl ?? ""}${mcp.path}`;
}

/** What agents meet at one URL. */
interface ServedTools {
  readonly url: string;
  readonly set: ToolSet;
}

export class ToolListing {
  readonly #made: readonly ServedTools[];
  readonly #sold: readonly SoldEntry[];
  readonly #soldTools: readonly SoldEntry[];
  #catalogue: Catalogue | undefined;

  private constructor(
    made: readonly ServedTools[],
    sold: readonly SoldEntry[],
    soldTools: readonly SoldEntry[],
  ) {
    this.#made = made;
    this.#sold = sold;
    this.#soldTools = soldTools;
  }

  /**
   * A step for each route of a site that has tools.
   * @param soldTools of servers that others have written
   */
  static *steps(
    config: ToolSales,
    sold: readonly SoldEntry[],
    soldTools: readonly SoldEntry[],
  ): Steps<ToolListing> {
    const made: ServedTools[] = [];
    for (const site of sitesOf(config)) {
      const url = toolsUrl(site);
      if (url !== null) made.push({ url, set: yield* toolSteps(site) });
    }
    return new ToolListing(made, sold, soldTools);
  }

  /** Undefined: it asks for something else, or in the words of version 1, which has no tools. */
  catalogueFor({ type, form }: Pick<DiscoveryQuery, "type" | "form">): Catalogue | undefined {
    if (type !== TOOL_TYPE || form === "v1") return undefined;
    return (this.#catalogue ??= createCatalogue(this.#entries(), TOOL_TYPE));
  }

  /** What can be paid for has changed. */
  forget(): void {
    this.#catalogue = undefined;
  }

  /** Without how well each was delivered, which changes with every sale: the routes tell that. */
  #entries(): readonly CatalogueEntry[] {
    const sold = new Map(this.#sold.map((each) => [each.route.key, each]));
    const served = this.#soldTools.flatMap(({ entry, offers }) => {
      const { quality: _, ...told } = entry;
      return offers.areNone ? [] : [{ ...told, accepts: offers.accepts(entry.resource) }];
    });
    const made = this.#made.flatMap(({ url, set }) => {
      return set.tools.flatMap(({ route, name, description, input, output }) => {
        const each = sold.get(route);
        if (each === undefined || each.offers.areNone) return [];
        const { pathParams: _, quality: __, ...entry } = each.entry;
        const answer = output === null ? undefined : sampleOf(output).example;
        const { schema: inputSchema, example } = input;
        const tool = { name, description, inputSchema, example, output: answer };
        const accepts = each.offers.accepts(entry.resource);
        return [{ ...entry, resource: url, methods: null, isTemplate: false, accepts, tool }];
      });
    });
    return [...made, ...served];
  }
}
