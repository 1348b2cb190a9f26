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
    onEnd: (...end) => ends.push(end),
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
    [false, [next.hash, before.hash]],
    [true, [next.hash]],
  ]);
});

test("no more than four files are in force in part: what would be the fifth asks for a restart", async () => {
  let price = 1;
  const reloading = new Reloading({
    load: async () => read(YAML.replace("$0.01", `$${price}`)),
    running: read(YAML),
    prepare: async (): Promise<Prepared> => {
      const commit = () => Promise.reject(new Error("worker 2 does not listen"));
      return { problems: [], commit, drop: nothing };
    },
    logger: createLogger({ level: "silent", format: "json" }),
    onEnd: () => undefined,
  });
  for (; price <= 4; price += 1) {
    expect(await reloading.reload("SIGHUP")).toMatchObject({ reloaded: true, inPart: true });
  }
  const fifth = await reloading.reload("SIGHUP");
  expect(fifth.reloaded).toBe(false);
  expect(fifth.problems.at(-1)).toMatchObject({
    message: "4 files after another are in force in part",
    suggestion: "restart",
  });
  // One of them may be put in once more.
  price = 2;
  expect(await reloading.reload("SIGHUP")).toMatchObject({ reloaded: true, inPart: true });
});

test("what is in force in part is not given away either, until the one that comes after it is in force", async () => {
  const text = (routes: string) =>
    `${YAML.replace("deny", "free")}${routes}  GET /last: { price: free }\n`;
  const [first, second] = [text("  GET /one: $1\n"), text("  GET /two: $2\n")];
  let now = first;
  const commits = [() => Promise.reject(new Error("worker 2 does not listen"))];
  const ends: unknown[] = [];
  const reloading = new Reloading({
    load: async () => read(now),
    running: read(first),
    prepare: async (): Promise<Prepared> => {
      return { problems: [], commit: commits.shift() ?? nothing, drop: nothing };
    },
    logger: createLogger({ level: "silent", format: "json" }),
    onEnd: (...end) => ends.push(end),
  });
  const refusedFor = async (next: string): Promise<unknown> => {
    now = next;
    const { reloaded, problems } = await reloading.reload("the file has changed");
    const errors = problems.filter(({ severity }) => severity === "error");
    return [reloaded, errors.map(({ message }) => message.replace(/ would be free.*/, ""))];
  };
  now = second;
  const meant = await reloading.reload("SIGHUP", { allowsFree: true });
  expect(meant).toMatchObject({ reloaded: true, inPart: true });
  expect(meant.problems.at(-1)?.suggestion).toBe(
    "reload it once more with --allow-free, or restart",
  );
  expect(await refusedFor(first)).toEqual([false, ["GET /two"]]);
  expect(await refusedFor(second)).toEqual([false, ["GET /one"]]);
  expect(await refusedFor(text(""))).toEqual([false, ["GET /two", "GET /one"]]);
  now = second;
  expect(await reloading.reload("SIGHUP", { allowsFree: true })).toMatchObject({ reloaded: true });
  expect(await refusedFor(text("  GET /one: free\n"))).toEqual([false, ["GET /two"]]);
  const [old, part] = [read(first).hash, read(second).hash];
  expect(ends).toEqual([
    ...Array.from({ length: 4 }, () => [false, [part, old]]),
    [true, [part]],
    [false, [part]],
  ]);
});

test("a file that has changed is left alone once one is in force that is not to be watched", async () => {
  const texts = [`${YAML}watch: false\n`, YAML.replace("$0.01", "$0.02")];
  const ends: unknown[] = [];
  const reloading = new Reloading({
    load: async () => read(texts.shift() ?? YAML),
    running: read(YAML),
    prepare: async (): Promise<Prepared> => ({ problems: [], commit: nothing, drop: nothing }),
    logger: createLogger({ level: "silent", format: "json" }),
    onEnd: (...end) => ends.push(end),
  });
  const seen = () => reloading.reload("the file has changed");
  // The second one has been seen before the first is in force.
  const both = await Promise.all([seen(), seen()]);
  expect(both.map(({ reloaded }) => reloaded)).toEqual([true, false]);
  expect(await reloading.reload("a file that it names has changed")).toMatchObject({
    reloaded: false,
  });
  expect([texts.length, ends.length]).toEqual([1, 1]);
  expect(await reloading.reload("SIGHUP")).toMatchObject({ reloaded: true });
});

test("what is not to be put in force, or is refused already, is prepared as a trial", async () => {
  const trials: boolean[] = [];
  const free = YAML.replace("deny", "free").replace("GET /weather", "GET /other");
  const texts = [YAML, free, YAML];
  const reloading = new Reloading({
    load: async () => read(texts.shift() ?? ""),
    running: read(YAML),
    prepare: async (_, isTrial): Promise<Prepared> => {
      trials.push(isTrial);
      return { problems: [], commit: nothing, drop: nothing };
    },
    logger: createLogger({ level: "silent", format: "json" }),
    onEnd: nothing,
  });
  expect((await reloading.reload("SIGHUP", { isDry: true })).wouldReload).toBe(true);
  expect((await reloading.reload("SIGHUP")).reloaded).toBe(false);
  expect((await reloading.reload("SIGHUP")).reloaded).toBe(true);
  expect(trials).toEqual([true, true, false]);
});
