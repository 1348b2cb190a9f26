import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Hundreds of processes of ours are started: each compiles the sources anew otherwise, for half a second of CPU.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(
  new URL("../node_modules/.cache/compile", import.meta.url),
);

export default defineConfig({
  test: {
    root: new URL(".", import.meta.url).pathname,
    include: [
      "{unit,conformance,integration,fault,simulation,chaos,attack,browser,proxy,siege}/**/*.test.ts",
    ],
    // For two cores: many tests wait for a chain, a process or a deadline.
    maxWorkers: 3,
    // Watchdogs, and no judgement of speed: a machine may be busy, or slow.
    testTimeout: 60_000,
    hookTimeout: 90_000,
    retry: 0,
  },
});
