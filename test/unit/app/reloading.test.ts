import { expect, test } from "vitest";
import { Reloading, type Prepared } from "../../../src/app/reloading.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { parseConfig, type Config, type ParseResult } from "../../../src/config/config.ts";

const YAML = `
publicUrl: http://localhost:8402
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
routes:
  GET /weather: $0.01
`;

function read(text: string): ParseResult & { readonly config: Config } {
  const parsed = parseConfig(text, { file: "x.yaml", env: {}, readFile: () => "" });
  if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
  return parsed;
}

async function nothing(): Promise<void> {}

test("what fails while it is put in is told as a part, counts as no success, and can be tried again", async () => {
  const before = read(YAML);
  const next = read(YAML.replace("$0.01", "$0.02"));
  const ends: unknown[] = [];
  const commits = [() => Promise.reject(new Error("worker 2 does not listen")), nothing];
  const reloading = new Reloading({
    load: async () => next,
    running: before,
    prepare: async (): Promise<Prepared> => {
      return { problems: [], commit: commits.shift() ?? nothing, drop: nothing };
    },
    logger: createLogger({ level: "silent", format: "json" }),
    onEnd: (isInUse, hash) => ends.push([isInUse, hash]),
  });
  expect(await reloading.reload("SIGHUP")).toMatchObject({
    reloaded: true,
    inPart: true,
    changes: [{ key: "routes.GET /weather.price", before: "$0.01", after: "$0.02" }],
    problems: expect.arrayContaining([
      expect.objectContaining({
        severity: "error",
        message: "only a part of it is in force: worker 2 does not listen",
      }),
    ]),
  });
  // The file is the one that is in force now: nothing of it is a change, and it is put in once more.
  const again = await reloading.reload("SIGHUP");
  expect([again.reloaded, again.inPart, again.changes]).toEqual([true, undefined, []]);
  expect(ends).toEqual([
    [false, next.hash],
    [true, next.hash],
  ]);
});
