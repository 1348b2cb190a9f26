/**
 * Listed routes as tools of an MCP server: each method of a priced route that anybody may know of is a tool, made of what
 * the configuration says of the route and of nothing else, or it is said why it is none.
 */
import { createHash } from "node:crypto";
import {
  priceOf,
  waysText,
  type Config,
  type PricedAction,
  type RouteSettings,
} from "../config/config.ts";
import { atOnce, type Steps } from "../time/breath.ts";
import { fits, sampleOf, type Schema } from "../x402/bazaar.ts";
import { toolInput, type ToolInput } from "./tool-input.ts";

/**
 * Longest name, characters: clients take 64, some of them with a name of the server before it. Letters, digits and `_`
 * are what all of them take.
 */
const MAX_NAME = 48;
/** Digits of a route's hash where names are cut, or would be the same. */
const HASH_DIGITS = 6;
/** Longest description, characters. */
const MAX_DESCRIPTION = 1_200;
/** In the order in which the methods of one route are tools; others are nothing that an agent asks with. */
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
/** Answers that a person looks at, or that have no end. */
const NO_TOOL_TYPES =
  /^(?:text\/html|application\/xhtml\+xml|text\/event-stream|multipart\/.*|video\/.*)(?:;|$)/i;

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly input: ToolInput;
  /** What its answers are; null: nothing is declared that a program could rely on. */
  readonly output: Schema | null;
  /** `$0.01`; of what is charged by use, or has its own price for each request, the most. */
  readonly price: string;
  readonly method: string;
  /** Key of its route. */
  readonly route: string;
  /** `/reports/:id` */
  readonly pattern: string;
  /** Whether it changes nothing, as its method says. */
  readonly isReading: boolean;
}

/** Of a route that is sold and is no tool. */
export interface NoTool {
  readonly route: string;
  /** Completes "it is no tool: …". */
  readonly why: string;
}

export interface ToolSet {
  /** In the order of the routes; names are unique. */
  readonly tools: readonly Tool[];
  /** Priced routes that are none. */
  readonly others: readonly NoTool[];
}

/** What of one site tools are made of. */
export type ToolGround = Pick<Config, "routes" | "passes" | "publicUrl">;

export function toolsOf(terms: ToolGround): ToolSet {
  return atOnce(toolSteps(terms));
}

/** The same, a step for each route. */
export function* toolSteps(terms: ToolGround): Steps<ToolSet> {
  const found: Omit<Tool, "name">[] = [];
  const others: NoTool[] = [];
  for (const route of terms.routes) {
    yield;
    const { action } = route;
    // One of a server of tools is one already.
    if (action.kind !== "priced" || route.tool !== undefined) continue;
    const made = ofRoute(route, action, terms);
    if (typeof made === "string") others.push({ route: route.key, why: made });
    else found.push(...made);
  }
  return { tools: named(found), others };
}

/** Why it is none, where it is none. */
function ofRoute(
  route: RouteSettings,
  action: PricedAction,
  terms: ToolGround,
): readonly Omit<Tool, "name">[] | string {
  const { mimeType, outputSchema, discoverable, input } = action;
  if (!discoverable) return "it is not listed (discoverable: false)";
  if (NO_TOOL_TYPES.test(mimeType)) return `its answers are ${mimeType}`;
  const methods = methodsOf(route, action);
  const [first] = methods;
  if (first === undefined) return "none of its methods is one that an agent asks with";
  const made = methods.map((method): Omit<Tool, "name"> | string => {
    const read = toolInput(route, input, method);
    if (typeof read === "string") return read;
    return {
      description: descriptionOf(route, action, { terms, method }),
      input: read,
      output: outputOf(outputSchema),
      price: priceOf(route) ?? "",
      method,
      route: route.key,
      pattern: route.pattern,
      isReading: method === "GET",
    };
  });
  const tools = made.filter((each) => typeof each !== "string");
  const why = made.find((each) => typeof each === "string");
  return tools.length === 0 && why !== undefined ? why : tools;
}

/**
 * Of a route of any method one: it is asked for with a body where one is declared. A `GET` of our own routes is for
 * browsers.
 */
function methodsOf({ methods }: RouteSettings, { own, input }: PricedAction): readonly string[] {
  if (own !== undefined) return ["POST"];
  if (methods !== null) return METHODS.filter((method) => methods.includes(method));
  return input.bodyType === undefined && input.bodyFields === undefined ? ["GET"] : ["POST"];
}

function descriptionOf(
  route: RouteSettings,
  action: PricedAction,
  { terms, method }: { readonly terms: ToolGround; readonly method: string },
): string {
  const { description, computed, metered } = action;
  const what = description === "" ? `${method} ${route.pattern}` : description;
  const price = (priceOf(route) ?? "").replace(/^up to /, "");
  const isMost = metered !== null || computed !== null;
  const asked = isMost ? `at most ${price} a call` : `${price} a call`;
  const ways = waysText(route, action, terms).map((way) => `${way}.`);
  return [sentence(what), `Price: ${asked}, paid by x402.`, ...ways]
    .join(" ")
    .slice(0, MAX_DESCRIPTION)
    .toWellFormed();
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Clients refuse an answer that is not as it was declared: only what a whole answer can be held against is. */
function outputOf(declared: PricedAction["outputSchema"]): Schema | null {
  if (declared === null) return null;
  const { schema } = sampleOf(declared);
  return schema.type === "object" ? schema : null;
}

/** Whether an answer is what {@link Tool.output} says. */
export function isAsDeclared(value: unknown, { output }: Pick<Tool, "output">): boolean {
  return output !== null && fits(value, output);
}

/** A name says nothing of the other routes, unless one of them would have the same. */
function named(found: readonly Omit<Tool, "name">[]): readonly Tool[] {
  const plain = found.map(plainName);
  const counts = Map.groupBy(plain, (name) => name);
  return found.map((tool, index) => {
    const name = plain[index] ?? "";
    const isAlone = counts.get(name)?.length === 1 && name.length <= MAX_NAME;
    return { name: isAlone ? name : withHash(name, tool), ...tool };
  });
}

/** `get_reports_id` */
function plainName({ method, pattern }: Pick<Tool, "method" | "pattern">): string {
  const words = pattern.replaceAll(/[^A-Za-z0-9]+/g, "_").replaceAll(/^_|_$/g, "");
  return `${method.toLowerCase()}_${words === "" ? "root" : words}`;
}

function withHash(name: string, { method, pattern }: Pick<Tool, "method" | "pattern">): string {
  const hash = createHash("sha256").update(`${method} ${pattern}`).digest("hex");
  return `${name.slice(0, MAX_NAME - HASH_DIGITS - 1)}_${hash.slice(0, HASH_DIGITS)}`;
}
