/** Files that a configuration includes. */
import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig, type ParseResult } from "../../../src/config/config.ts";
import { asGithub, asJson } from "../../../src/cli/check/check-formats.ts";
import { asSarif } from "../../../src/cli/check/sarif.ts";

const FILE = "/etc/coinslot/gateway.yaml";
const MAIN = `
include: [routes/weather.yaml, more.yaml]
publicUrl: https://shop.example.com
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
routes:
  GET /own: { price: $0.01, description: Ours }
`;
const WEATHER = `routes:
  GET /weather: { price: $0.02, description: Weather }
`;
const MORE = "limits:\n  body: 3MiB\nroutes: { GET /free: free }\n";

function read(files: Readonly<Record<string, string>> = {}, text = MAIN): ParseResult {
  const all: Readonly<Record<string, string>> = {
    "/etc/coinslot/routes/weather.yaml": WEATHER,
    "/etc/coinslot/more.yaml": MORE,
    ...Object.fromEntries(
      Object.entries(files).map(([name, each]) => [`/etc/coinslot/${name}`, each]),
    ),
  };
  return parseConfig(text, {
    file: FILE,
    env: { PRICE: "$0.07" },
    readFile: (path) => {
      const found = all[path];
      if (found === undefined) throw new Error("ENOENT");
      return found;
    },
  });
}

function faultsOf({ problems }: ParseResult): readonly string[] {
  return problems
    .filter(({ severity }) => severity === "error")
    .map(({ file, line, column, message }) => `${file}:${line}:${column} ${message}`);
}

test("their keys count as if they stood in the file, in whatever order", () => {
  const parsed = read({ "more.yaml": MORE.replace("free }", '"${PRICE}" }') });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  const { routes, limits, included } = parsed.config;
  expect(routes.map(({ key, file, line }) => [key, file, line])).toEqual([
    ["GET /own", FILE, 10],
    ["GET /weather", "/etc/coinslot/routes/weather.yaml", 2],
    ["GET /free", "/etc/coinslot/more.yaml", 3],
  ]);
  expect(routes[2]?.action).toMatchObject({ kind: "priced" });
  expect(limits.bodyBytes).toBe(3 * 1024 ** 2);
  expect(included).toEqual(["/etc/coinslot/routes/weather.yaml", "/etc/coinslot/more.yaml"]);
  const other = read();
  expect(other.hash).not.toBe(parsed.hash);
  expect(read().hash).toBe(other.hash);
});

describe("what is wrong in one", () => {
  const key = `0x${"5a".repeat(32)}`;
  const broken = {
    "routes/weather.yaml": WEATHER.replace("$0.02", "2 dollars"),
    "more.yaml": `facilitatr: ${key}\nroutes:\n  GET /more: [\n`,
  };

  test("is told at its place, and quoted without secrets", () => {
    const parsed = read(broken);
    expect(faultsOf(parsed)).toEqual([
      expect.stringMatching(/^\/etc\/coinslot\/routes\/weather\.yaml:2:26 /),
      expect.stringMatching(/^\/etc\/coinslot\/more\.yaml:1:1 unknown key/),
      expect.stringMatching(/^\/etc\/coinslot\/more\.yaml:3:14 .*not closed/),
    ]);
    const told = formatProblems(parsed.problems, parsed.text);
    expect(told).toContain("  GET /weather: { price: 2 dollars, description: Weather }\n");
    expect(told).toContain("facilitatr: *****");
    expect(told).not.toContain(key);
  });

  test("is so in every format of check", () => {
    const parsed = read(broken);
    const checked = {
      name: "gateway.yaml",
      isAccepted: false,
      problems: parsed.problems,
      text: parsed.text,
    };
    const [{ problems }] = JSON.parse(asJson([checked], false)).files;
    expect(problems[0]).toMatchObject({
      file: "/etc/coinslot/routes/weather.yaml",
      line: 2,
      source: "  GET /weather: { price: 2 dollars, description: Weather }",
    });
    expect(asGithub([checked])).toContain("file=/etc/coinslot/routes/weather.yaml,line=2");
    const [run] = JSON.parse(asSarif([checked], "1")).runs;
    const uri = "file:///etc/coinslot/routes/weather.yaml";
    expect(run.artifacts).toContainEqual({ location: { uri } });
    expect(run.results[0].locations[0].physicalLocation).toMatchObject({
      artifactLocation: { uri },
      region: { startLine: 2, startColumn: 26 },
    });
  });

  test.each([
    [
      "what is said twice",
      { "more.yaml": "unmatched: free\n" },
      'more.yaml:1:1 "unmatched" is already given on line 8',
    ],
    [
      "a route that another one has",
      { "more.yaml": "routes: { GET /weather: $1 }\n" },
      'more.yaml:1:11 "GET /weather" is already given on line 2 of /etc/coinslot/routes/weather.yaml',
    ],
    [
      "requests that another one sells",
      { "more.yaml": 'routes: { "/other": $1, "GET,POST /weather": free }\n' },
      'more.yaml:1:25 matches the same requests as "GET /weather" on line 2 of /etc/coinslot/routes/weather.yaml',
    ],
    [
      "includes of its own",
      { "more.yaml": "include: x.yaml\n" },
      "more.yaml:1:1 a file that is included includes no others",
    ],
    [
      "a list",
      { "more.yaml": "- routes\n" },
      "more.yaml:1:1 a file that is included has to be a map of the same keys",
    ],
    ["no text", { "more.yaml": "\n" }, "gateway.yaml:2:32 the file is empty"],
  ])("is an error: %s", (_, files, expected) => {
    expect(faultsOf(read(files))).toEqual([`/etc/coinslot/${expected}`]);
  });

  test.each([
    ["is not there", "include: missing.yaml", "2:10 the file cannot be read"],
    ["is there twice", "include: [more.yaml, ./more.yaml]", "2:22 the file is included twice"],
    [
      "is no name",
      "include: { a: b }",
      "2:10 include must be the path of a file, or a list of them",
    ],
    [
      "is one of too many",
      `include: [${Array.from({ length: 101 }, (_, at) => `${at}.yaml`).join(", ")}]`,
      null,
    ],
  ])("is an error in the file itself, which names it: %s", (_, line, expected) => {
    const parsed = read({}, MAIN.replace(/^include.*$/m, line));
    const faults = faultsOf(parsed);
    if (expected === null) expect(faults.join("\n")).toContain("must be at most 100 files");
    else expect(faults).toEqual([`${FILE}:${expected}`]);
  });
});
