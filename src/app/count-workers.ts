import { availableParallelism } from "node:os";
import type { Config } from "../config/config.ts";

/** How many processes serve requests: 1 is this one. */
export function countWorkers({ workers, routes }: Pick<Config, "workers" | "routes">): number {
  if (routes.length === 0) return 1;
  return workers === "auto" ? availableParallelism() : workers;
}
