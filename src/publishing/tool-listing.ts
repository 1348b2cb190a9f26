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
import { toolsOf } from "../tools/tools.ts";
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

export class ToolListing {
  readonly #config: ToolSales;
  readonly #sold: readonly SoldEntry[];
  #catalogue: Catalogue | undefined;

  constructor(config: ToolSales, sold: readonly SoldEntry[]) {
    this.#config = config;
    this.#sold = sold;
  }

  /** Undefined: it asks for something else, or in the words of version 1, which has no tools. */
  catalogueFor({ type, form }: Pick<DiscoveryQuery, "type" | "form">): Catalogue | undefined {
    if (type !== TOOL_TYPE || form === "v1") return undefined;
    return (this.#catalogue ??= createCatalogue(this.#entries(), TOOL_TYPE));
  }

  /** What is sold, or how it is told, has changed. */
  forget(): void {
    this.#catalogue = undefined;
  }

  #entries(): readonly CatalogueEntry[] {
    const sold = new Map(this.#sold.map((each) => [each.route.key, each]));
    return sitesOf(this.#config).flatMap((site) => {
      const url = toolsUrl(site);
      if (url === null) return [];
      return toolsOf(site).tools.flatMap(({ route, name, description, input, output }) => {
        const each = sold.get(route);
        if (each === undefined || each.offers.areNone) return [];
        const { pathParams: _, ...entry } = each.entry;
        const answer = output === null ? undefined : sampleOf(output).example;
        const { schema: inputSchema, example } = input;
        const tool = { name, description, inputSchema, example, output: answer };
        const accepts = each.offers.accepts(entry.resource);
        return [{ ...entry, resource: url, methods: null, isTemplate: false, accepts, tool }];
      });
    });
  }
}
