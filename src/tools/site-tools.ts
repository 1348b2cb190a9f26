/** The tools of one site, with what is told of who sells them. */
import { inTurns } from "../time/breath.ts";
import { toolSteps, type Tool, type ToolGround } from "./tools.ts";

export interface SiteTools {
  /** In the order in which they are listed; names are unique. */
  readonly tools: readonly Tool[];
  readonly byName: ReadonlyMap<string, Tool>;
  /** Absolute, without a slash at its end. */
  readonly publicUrl: string;
  /** Where messages are posted, absolute. */
  readonly url: string;
  /** Who sells, as clients show it. */
  readonly seller: string;
}

export interface ServedTerms extends ToolGround {
  readonly path: string;
  /** "": none is told. */
  readonly brand: string;
}

/** In turns with whatever else is done: of thousands of routes it takes a while. */
export async function siteTools(terms: ServedTerms): Promise<SiteTools> {
  const { path, brand, publicUrl: told } = terms;
  const publicUrl = told ?? "";
  const { tools } = await inTurns(toolSteps(terms));
  const seller = brand === "" ? (URL.parse(publicUrl)?.host ?? "coinslot") : brand;
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return { tools, byName, publicUrl, url: publicUrl + path, seller };
}
