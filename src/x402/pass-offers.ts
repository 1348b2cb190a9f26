/**
 * Passes: what opens a resource beside a payment for it, and is bought elsewhere. Told as an extension of version 2 of our own,
 * which clients that do not know it pass over, and as links.
 */
import type { ExtensionsV2 } from "./version-2.ts";

/** Its name among the extensions. */
const PASSES = "passes";
/** Passes of one resource that are told with its price: the listing has all. */
const MAX_TOLD = 4;

export interface ToldPass {
  readonly name: string;
  /** Where it is bought: absolute. */
  readonly url: string;
  /** In dollars, with their sign. */
  readonly price: string;
  /** How long after its payment. */
  readonly seconds: number;
  /** How many requests it is good for; undefined: all. */
  readonly requests?: number;
}

const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: { passes: { type: "array", items: { type: "object" } } },
  required: ["passes"],
};

export function passesExtension(passes: readonly ToldPass[]): ExtensionsV2 {
  if (passes.length === 0) return {};
  return { [PASSES]: { info: { passes: passes.slice(0, MAX_TOLD) }, schema: SCHEMA } };
}

/** Raw lines: `payment` is the registered relation of where something is paid. */
export function passLinks(passes: readonly ToldPass[]): readonly string[] {
  return passes
    .slice(0, MAX_TOLD)
    .flatMap(({ url, name }) => ["Link", `<${url}>; rel="payment"; title="${name}"`]);
}
