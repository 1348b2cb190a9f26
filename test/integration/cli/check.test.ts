/** `coinslot check` and `coinslot schema` as people, scripts and continuous integration use them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { placesOf } from "../../../src/app/places.ts";
import { NETWORK_NAMES, networkOf } from "../../../src/x402/network.ts";
import { accepting } from "../../support/accepting.ts";
import { startIdleFacilitator } from "../../support/scripted-facilitator.ts";
import { Site } from "../../support/serve.ts";
import { runHere } from "./run-here.ts";

const ROOT = join(import.meta.dirname, "../../..");
const MINIMAL = "config/minimal.yaml";
const SECRET = "s3cr3t-and-long-enough";

const GATEWAY = `upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
facilitator: https://facilitator.example.com
unmatched: deny
`;
const WARNED = `${GATEWAY}accept: [base-sepolia, sei-testnet]
routes:
  GET /weather: { price: $0.01, description: Weather }
`;
const REFUSED = `${GATEWAY}accept: [base-sepolia]
shutdwn: 30s
store: postgres://me:${SECRET}@db.example.com/coinslot#x
routes:
  GET /100%: { price: $0.01, description: Weather }
`;

let folder: string;
let warned: string;
let refused: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-check-"));
  warned = join(folder, "warned.yaml");
  refused = join(folder, "refused, 50%: b.yaml");
  await writeFile(warned, WARNED);
  await writeFile(refused, REFUSED);
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

describe("check", () => {
  test("accepts a file with 0, and says so in one line", async () => {
    const { code, stdout, stderr } = await runHere(["check", MINIMAL]);

    const [verdict, places] = stdout.split("\n");
    expect([code, verdict]).toEqual([0, `${MINIMAL}: ok (0 errors, 0 warnings, 2 notes)`]);
    const { count, reason } = placesOf(null, 1);
    expect(places).toBe(`${MINIMAL}: limits.inFlight is ${count}: ${reason}`);
    expect(stderr).toMatch(/^config\/minimal\.yaml:\d+:3: note: GET \/weather has no description/);
  });

  test("explains what it refuses with 1, without a secret", async () => {
    const { code, stdout, stderr } = await runHere(["check", refused]);

    expect(code).toBe(1);
    expect(stdout).toBe(`${refused}: refused (3 errors, 0 warnings, 0 notes)\n`);
    expect(stderr).toContain(
      `${refused}:7:1: error: unknown key\n  shutdwn: 30s\n  ^^^^^^^\n  did you mean "shutdown"?\n`,
    );
    expect(stderr).not.toContain(SECRET);
  });

  test("reads several files, one of which may be refused or absent", async () => {
    const absent = join(folder, "absent.yaml");

    const { code, stdout } = await runHere(["check", MINIMAL, refused, absent]);

    expect(code).toBe(1);
    expect(stdout.match(/: (?:ok|refused) /g)).toEqual([": ok ", ": refused ", ": refused "]);
  });

  test("lets warnings pass, and not with --strict", async () => {
    const lax = await runHere(["check", warned]);
    const strict = await runHere(["check", "--strict", warned]);
    const notes = await runHere(["check", "--strict", MINIMAL]);

    expect([lax.code, strict.code, notes.code]).toEqual([0, 1, 0]);
    const refused = `${warned}: refused by --strict (0 errors, 1 warning, 0 notes)\n`;
    expect(strict.stdout.startsWith(refused)).toBe(true);
  });

  test("reads the standard input as -", async () => {
    const child = spawn(process.execPath, ["src/main.ts", "check", "--json", "-"], { cwd: ROOT });
    child.stdin.end(REFUSED);
    const [stdout] = await Promise.all([text(child.stdout), once(child, "exit")]);

    expect(child.exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ files: [{ file: "<stdin>", errors: 3 }] });
  });

  test("accepts what is shipped without its keys and variables, where it is told to", async () => {
    const shipped = ["gateway", "kubernetes", "sidecar", "systemd"].map((name) => {
      return `deploy/${name}/gateway.yaml`;
    });

    const lenient = await runHere(["check", "--no-secrets", "--strict", ...shipped]);
    const usual = await runHere(["check", ...shipped]);

    const verdict = "ok (0 errors, 0 warnings, 0 notes)";
    expect(lenient).toEqual({
      code: 0,
      stdout: shipped.map((name) => `${name}: ${verdict}\n`).join(""),
      stderr: "",
    });
    expect([usual.code, usual.stderr]).toEqual([1, expect.stringContaining("cannot be read")]);
  });

  test("warns of a key that every user of the machine can read", async () => {
    const key = join(folder, "settler.key");
    const file = join(folder, "keyed.yaml");
    const network =
      "base-sepolia: { rpc: [https://sepolia.base.org], signers: [file:settler.key] }";
    await writeFile(
      file,
      `facilitator: { listen: 127.0.0.1:4021, embedded: { networks: { ${network} } } }`,
    );
    await writeFile(key, "5a".repeat(32), { mode: 0o600 });
    await chmod(folder, 0o755);
    const own = await runHere(["check", file]);
    await chmod(key, 0o604);
    const open = await runHere(["check", file]);
    await chmod(folder, 0o700);
    const guarded = await runHere(["check", file]);

    expect([own.stderr, guarded.stderr]).toEqual(["", ""]);
    expect(open.stderr).toMatch(/keyed.yaml:1:\d+: warning: the file can be read by every user/);
  });

  test.each([["--format", "xml", MINIMAL], ["--colour", MINIMAL], []])(
    "is told wrongly: %s %s",
    async (...words) => {
      const { code, stdout, stderr } = await runHere(["check", ...words]);

      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toContain("Exit codes: 0 every file is accepted, 1 one is refused, 2");
    },
  );
});

describe("the head of a 402", () => {
  test("is as long as check says", async () => {
    await using site = await Site.create();
    await using idle = await startIdleFacilitator();
    const accept = NETWORK_NAMES.filter((name) => networkOf(name).kind === "evm");
    const text = GATEWAY.replace(/^publicUrl: .*\n/m, "").replace(
      "https://facilitator.example.com",
      idle.url,
    );
    const served = await site.serve(
      `${text}accept: [${accepting(accept)}]\ncors: true\nroutes: { GET /weather: $0.01 }\n`,
      {},
    );
    await served.untilReady();

    const { stderr } = await runHere(["check", site.file]);

    const head = await headOf(served.url, [
      "GET /weather HTTP/1.1",
      "Host: 127.0.0.1",
      "Accept: text/html",
      "Accept-Encoding: gzip",
      "Origin: https://example.com",
    ]);
    expect(head).toMatch(/^HTTP\/1\.1 402 /);
    expect(head.length).toBeGreaterThan(4_096);
    expect(stderr).toContain(`has a head of up to ${head.length.toLocaleString("en")} bytes`);
  }, 30_000);
});

/** What comes before the body, byte by byte. */
async function headOf(url: string, lines: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  let got = "";
  for await (const chunk of socket.setEncoding("latin1")) {
    got += chunk;
    const end = got.indexOf("\r\n\r\n");
    if (end >= 0) return got.slice(0, end + 4);
  }
  throw new Error("there is no head");
}

const count = z.int().min(0);
const place = z.int().min(1).nullable();
/** The documented shape of `--format json`. */
const jsonReport = z.strictObject({
  version: z.literal(1),
  ok: z.boolean(),
  strict: z.boolean(),
  errors: count,
  warnings: count,
  notes: count,
  files: z.array(
    z.strictObject({
      file: z.string(),
      accepted: z.boolean(),
      errors: count,
      warnings: count,
      notes: count,
      problems: z.array(
        z.strictObject({
          severity: z.enum(["error", "warning", "note"]),
          code: z.string().regex(/^[a-z]+(?:-[a-z]+)*$/),
          message: z.string(),
          suggestion: z.string().nullable(),
          file: z.string(),
          line: place,
          column: place,
          endColumn: place,
          path: z.array(z.union([z.string(), z.number()])),
          source: z.string().nullable(),
        }),
      ),
    }),
  ),
});

describe("check --format json", () => {
  test("is one document of a stable shape, and nothing else", async () => {
    const absent = join(folder, "absent.yaml");

    const { code, stdout, stderr } = await runHere(["check", "--json", warned, refused, absent]);

    const report = jsonReport.parse(JSON.parse(stdout));
    expect([code, stderr]).toEqual([1, ""]);
    expect(report).toMatchObject({ ok: false, strict: false, errors: 4, warnings: 1, notes: 0 });
    expect(report.files.map(({ file, accepted }) => [file, accepted])).toEqual([
      [warned, true],
      [refused, false],
      [absent, false],
    ]);
    expect(report.files[1]?.problems[0]).toEqual({
      severity: "error",
      code: "unknown-key",
      message: "unknown key",
      suggestion: 'did you mean "shutdown"?',
      file: refused,
      line: 7,
      column: 1,
      endColumn: 8,
      path: ["shutdwn"],
      source: "shutdwn: 30s",
    });
    expect(report.files[2]?.problems[0]).toMatchObject({ line: null, source: null, path: [] });
    expect(stdout).not.toContain(SECRET);
  });

  test("says with --strict what the exit code says", async () => {
    const { code, stdout } = await runHere(["check", "--format", "json", "--strict", warned]);

    expect(code).toBe(1);
    expect(jsonReport.parse(JSON.parse(stdout))).toMatchObject({
      ok: false,
      strict: true,
      files: [{ accepted: true }],
    });
  });
});

/** What a workflow runner reads from a line: the command, its properties and its message, unescaped. */
function readCommand(line: string) {
  const [, command, properties = "", data = ""] = /^::(\w+) (.*?)::(.*)$/.exec(line) ?? [];
  const pairs = properties.split(",").map((each) => each.split("=").map(unescaped));
  return { command, properties: Object.fromEntries(pairs), message: unescaped(data) };
}

function unescaped(written: string): string {
  return written.replace(/%(?:0A|0D|3A|2C|25)/g, (escape) => decodeURIComponent(escape));
}

describe("check --format github", () => {
  test("is one workflow command for each problem, escaped", async () => {
    const { code, stdout, stderr } = await runHere([
      "check",
      "--format",
      "github",
      MINIMAL,
      warned,
      refused,
    ]);

    const commands = stdout.trimEnd().split("\n").map(readCommand);
    expect([code, stderr]).toEqual([1, ""]);
    expect(commands.map(({ command }) => command).join(" ")).toBe(
      "notice notice warning warning error error error",
    );
    // The first two are one payee with two ledgers.
    expect(commands[4]).toEqual({
      command: "error",
      properties: {
        file: refused,
        line: "7",
        endLine: "7",
        col: "1",
        endColumn: "8",
        title: "coinslot: unknown-key",
      },
      message: 'unknown key\ndid you mean "shutdown"?',
    });
    expect(stdout).toContain("file=");
    expect(stdout).toContain("refused%2C 50%25%3A b.yaml");
    expect(stdout).not.toContain(SECRET);
  });

  test("is nothing where there is nothing to say", async () => {
    const quiet = join(folder, "quiet.yaml");
    await writeFile(quiet, WARNED.replace(", sei-testnet", ""));

    expect(await runHere(["check", "--format", "github", quiet])).toEqual({
      code: 0,
      stdout: "",
      stderr: "",
    });
  });
});

const index = z.int().min(0);
const line = z.int().min(1);
const message = z.strictObject({ text: z.string().min(1) });
const uri = z.string().regex(/^(?:file:\/\/\/)?(?:[\w.~!$&'()*+,;:=@/-]|%[0-9A-F]{2})+$/);
/** What SARIF 2.1.0 (sections 3.13 to 3.52) demands of the properties that we use; it knows no others. */
const sarifLog = z.strictObject({
  $schema: z.url(),
  version: z.literal("2.1.0"),
  runs: z
    .array(
      z.strictObject({
        tool: z.strictObject({
          driver: z.strictObject({
            name: z.literal("coinslot"),
            version: z.string(),
            rules: z.array(z.strictObject({ id: z.string(), shortDescription: message })),
          }),
        }),
        columnKind: z.enum(["utf16CodeUnits", "unicodeCodePoints"]),
        artifacts: z.array(z.strictObject({ location: z.strictObject({ uri }) })),
        results: z.array(
          z.strictObject({
            ruleId: z.string(),
            ruleIndex: index,
            level: z.enum(["none", "note", "warning", "error"]),
            message,
            locations: z.array(
              z.strictObject({
                physicalLocation: z.strictObject({
                  artifactLocation: z.strictObject({ uri, index }),
                  region: z
                    .strictObject({
                      startLine: line,
                      startColumn: line,
                      endLine: line,
                      endColumn: line,
                      snippet: z.strictObject({ text: z.string() }),
                    })
                    .optional(),
                }),
              }),
            ),
          }),
        ),
      }),
    )
    .length(1),
});

type SarifLog = z.output<typeof sarifLog>;

function onlyRun({ runs }: SarifLog): SarifLog["runs"][number] {
  const [run] = runs;
  if (run === undefined) throw new Error("the log has no run");
  return run;
}

describe("check --format sarif", () => {
  test("is a log of SARIF 2.1.0 with a result for each problem", async () => {
    const absent = join(folder, "absent.yaml");
    const files = [MINIMAL, warned, refused, absent];

    const { code, stdout, stderr } = await runHere(["check", "--format", "sarif", ...files]);

    const { results } = onlyRun(sarifLog.parse(JSON.parse(stdout)));
    expect([code, stderr]).toEqual([1, ""]);
    expect(results.map(({ level }) => level).join(" ")).toBe(
      "note note warning warning error error error error",
    );
    expect(results[4]?.locations[0]?.physicalLocation.region).toEqual({
      startLine: 7,
      startColumn: 1,
      endLine: 7,
      endColumn: 8,
      snippet: { text: "shutdwn: 30s" },
    });
    expect(results.at(-1)?.locations[0]?.physicalLocation).not.toHaveProperty("region");
    expect(stdout).not.toContain(SECRET);
  });

  test("names each file and each kind of problem once, and refers to them by number", async () => {
    const files = [MINIMAL, warned, refused, refused];

    const { stdout } = await runHere(["check", "--format", "sarif", ...files]);

    const { tool, artifacts, results } = onlyRun(sarifLog.parse(JSON.parse(stdout)));
    const { rules } = tool.driver;
    const uris = artifacts.map(({ location }) => location.uri);
    expect(uris).toHaveLength(3);
    expect(uris[0]).toBe(MINIMAL);
    expect(new Set(rules.map(({ id }) => id)).size).toBe(rules.length);
    expect(results).toHaveLength(10);
    for (const { ruleId, ruleIndex, locations } of results) {
      expect(rules[ruleIndex]?.id).toBe(ruleId);
      for (const { physicalLocation } of locations) {
        const { uri: named, index: at } = physicalLocation.artifactLocation;
        expect(uris[at]).toBe(named);
      }
    }
  });
});

describe("schema", () => {
  test("prints what is committed for editors", async () => {
    const { code, stdout, stderr } = await runHere(["schema"]);

    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toBe(await readFile(join(ROOT, "config/gateway.schema.json"), "utf8"));
  });
});
