import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    root: new URL(".", import.meta.url).pathname,
    include: [
      "{unit,conformance,integration,fault,simulation,chaos,attack,browser,proxy}/**/*.test.ts",
    ],
    // Two cores: more workers than that only make the real nodes and databases slower.
    maxWorkers: 2,
    testTimeout: 20_000,
    hookTimeout: 30_000,
    retry: 0,
  },
});
