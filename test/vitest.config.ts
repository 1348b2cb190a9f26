import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Hundreds of processes of ours are started: each compiles the sources anew otherwise, for half a second of CPU.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(
  new URL("../node_modules/.cache/compile", import.meta.url),
);

/** More than a minute each, the longest first. */
const LONGEST = [
  "integration/refunds",
  "integration/papers/benches",
  "attack/attack",
  "simulation/simulation",
  "chaos/credits",
  "chaos/chaos",
];

/** What takes longest begins first: at the end it would run alone. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return at < 0 ? LONGEST.length : at;
    };
    return sorted.toSorted((left, right) => place(left) - place(right));
  }
}

export default defineConfig({
  test: {
    root: new URL(".", import.meta.url).pathname,
    include: [
      "{unit,conformance,integration,fault,simulation,chaos,attack,browser,proxy,siege}/**/*.test.ts",
    ],
    globalSetup: "support/bundled-gateway.ts",
    // For two cores: many tests wait for a chain, a process or a deadline.
    maxWorkers: 4,
    // A worker takes one file after another, and what they share is evaluated once: a third of the CPU of the units.
    isolate: false,
    // Watchdogs, and no judgement of speed: a machine may be busy, or slow.
    testTimeout: 60_000,
    hookTimeout: 90_000,
    retry: 0,
    // What is waited for ends the wait; a second is soon over on a busy machine.
    expect: { poll: { timeout: 10_000 } },
    sequence: { sequencer: LongestFirst },
  },
});
