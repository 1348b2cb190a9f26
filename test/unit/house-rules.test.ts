/** Conventions that no linter rule expresses, and a check that the linter refuses cycles. */
import { execFile } from "node:child_process";
import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { structureOf } from "../bench/house/structure.ts";

const ROOT = join(import.meta.dirname, "../..");
const run = promisify(execFile);

interface Source {
  readonly name: string;
  readonly text: string;
}

async function sources(folder: string): Promise<Source[]> {
  const names = await readdir(join(ROOT, folder), { recursive: true });
  const wanted = names.filter((name) => name.endsWith(".ts"));
  return Promise.all(
    wanted.map(async (name) => ({
      name: join(folder, name),
      text: await readFile(join(ROOT, folder, name), "utf8"),
    })),
  );
}

describe("the top level", () => {
  it("holds the product and nothing else", async () => {
    const { stdout } = await run(
      "git",
      ["ls-files", "--cached", "--others", "--exclude-standard"],
      {
        cwd: ROOT,
      },
    );
    const top = new Set(
      stdout
        .trim()
        .split("\n")
        .map((name) => name.split("/", 1)[0] ?? ""),
    );
    const shown = [...top].filter((name) => !name.startsWith(".")).sort();
    const papers = ["CHANGELOG.md", "LICENSE", "README.md"];
    const files = [...papers, "Dockerfile", "package-lock.json", "package.json", "tsconfig.json"];
    expect(shown).toEqual([...files, "bundle", "config", "deploy", "src", "test"].sort());
  });
});

describe("the changelog", () => {
  it("names the version that this is, and what comes next", async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
    const changelog = await readFile(join(ROOT, "CHANGELOG.md"), "utf8");
    const titles = [...changelog.matchAll(/^## \[([^\]]+)\]/gm)].map(([, title]) => title);
    expect(titles.slice(0, 2)).toEqual(["Unreleased", version]);
  });
});

describe("the papers", () => {
  it("show no command that there is not, and no file", async () => {
    const { stdout } = await run("git", ["ls-files", "*.md"], { cwd: ROOT });
    const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
    const cli = await sources("src/cli");
    const commands = cli.flatMap(({ text }) =>
      [...text.matchAll(/\.command\("(\w+)/g)].map(([, name]) => name),
    );
    expect(commands).toContain("serve");
    for (const name of stdout.trim().split("\n")) {
      // What was so when it was decided stays as it was.
      if (name.startsWith("src/decisions/") || name === "CHANGELOG.md") continue;
      const text = await readFile(join(ROOT, name), "utf8");
      for (const [, script = ""] of text.matchAll(/npm run (?:-s )?([\w:]+(?:-\w+)*)/g)) {
        expect(Object.keys(scripts), `${name} says npm run ${script}`).toContain(script);
      }
      for (const [, command] of text.matchAll(/(?:coinslot --|`coinslot) (\w+)/g)) {
        expect(commands, `${name} says coinslot ${command}`).toContain(command);
      }
      for (const [, link = ""] of text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)) {
        await expect(
          stat(join(ROOT, dirname(name), link)),
          `${name}: ${link}`,
        ).resolves.toBeDefined();
      }
    }
  });

  it("introduce themselves on one page", async () => {
    const readme = await readFile(join(ROOT, "README.md"), "utf8");
    expect(readme.split("\n").length).toBeLessThanOrEqual(150);
  });
});

describe("source files", () => {
  it("are named in kebab case, are no barrels, and stay below 500 lines", async () => {
    for (const { name, text } of [...(await sources("src")), ...(await sources("test"))]) {
      expect(basename(name), name).toMatch(/^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z]+)*\.ts$/);
      expect(basename(name), name).not.toBe("index.ts");
      expect(text.split("\n").length, name).toBeLessThanOrEqual(500);
    }
  });

  it("are in no folder that means anything and nothing", async () => {
    for (const { name } of await sources("src")) {
      expect(dirname(name)).not.toMatch(/\b(?:utils?|common|types|helpers?|misc|lib)\b/);
    }
  });

  it("carry what was learned of a payment with it, and find nothing again by an object's identity", async () => {
    for (const folder of ["src/facilitator", "src/ledger", "src/payments/settlement", "src/x402"]) {
      for (const { name, text } of await sources(folder)) {
        expect(text, name).not.toMatch(/new Weak(?:Map|Set)\b/);
      }
    }
    const others = [...(await sources("src/mechanism")), ...(await sources("src/payments"))];
    for (const { name, text } of others) {
      expect(text, name).not.toMatch(/new Weak(?:Map|Set)<\w*(?:Authorization|Request|Payment)/);
    }
  });

  it("do not import each other in a circle, types included", () => {
    expect(structureOf(ROOT).cycles).toEqual([]);
  });

  it("give no exported type the name of another", async () => {
    const places = new Map<string, string[]>();
    for (const { name, text } of await sources("src")) {
      for (const [, type = ""] of text.matchAll(
        /^export (?:abstract )?(?:interface|type|class) (\w+)/gm,
      )) {
        places.set(type, [...(places.get(type) ?? []), name]);
      }
    }
    const twice = [...places].filter(([, names]) => names.length > 1);
    expect(Object.fromEntries(twice)).toEqual({});
  });

  it("never make money a float", async () => {
    // Where a number is unavoidable it is for a graph (telemetry), and its name says so.
    const money = /\b(?:amount|price|value|balance|atomic)\w*/i;
    for (const { name, text } of await sources("src")) {
      expect(text, name).not.toMatch(/parseFloat/);
      for (const [, argument = ""] of text.matchAll(/\bNumber\(([^()]*(?:\([^()]*\))?[^()]*)\)/g)) {
        if (/^src\/telemetry\/(?:metrics|wallet-meter)\.ts$/.test(name)) continue;
        expect(argument, `Number(${argument}) in ${name}`).not.toMatch(money);
      }
      for (const [, operand = ""] of text.matchAll(/(?:[=(,:?]|return)\s*\+([A-Za-z_.#]+)/g)) {
        expect(operand, `unary + on ${operand} in ${name}`).not.toMatch(money);
      }
    }
  });

  it("read no clock of their own on the way of the money", async () => {
    const clocks =
      /performance\.now|Date\.now|\b(?<!\.)set(?:Timeout|Interval|Immediate)\(|AbortSignal\.timeout\(/;
    const rooms = ["src/ledger", "src/facilitator", "src/mechanism", "src/payments"];
    const found = (await Promise.all(rooms.map(sources)))
      .flat()
      .filter(({ text }) => clocks.test(text.replaceAll(/^\s*(?:\*|\/\/|\/\*).*$/gm, "")))
      .map(({ name }) => name);
    // At their edges, where others are waited for: callers, nodes, a database.
    expect(found.sort()).toEqual([
      "src/facilitator/called-request.ts",
      "src/facilitator/endpoints.ts",
      "src/ledger/postgres/postgres-listen.ts",
      "src/mechanism/evm/shared-inspection.ts",
      "src/mechanism/rpc.ts",
    ]);
  });

  it("suppress no check", async () => {
    for (const { name, text } of [...(await sources("src")), ...(await sources("test"))]) {
      if (name.endsWith("house-rules.test.ts")) continue;
      expect(text, name).not.toMatch(
        /@ts-(?:ignore|expect-error|nocheck)|(?:oxlint|eslint)-disable/,
      );
      expect(text, name).not.toMatch(/as unknown as/);
    }
  });
});

describe("the linter", () => {
  it("refuses cycles", async () => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-arrows-"));
    const cycle = {
      "src/x402/round.ts":
        'import { about } from "./about.ts";\nexport const round = () => about;\n',
      "src/x402/about.ts":
        'import { round } from "./round.ts";\nexport const about = () => round;\n',
    };
    try {
      await cp(join(ROOT, ".oxlintrc.json"), join(folder, ".oxlintrc.json"));
      await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
      for (const [name, text] of Object.entries(cycle)) {
        await mkdir(dirname(join(folder, name)), { recursive: true });
        await writeFile(join(folder, name), text);
      }
      const linter = join(ROOT, "node_modules/.bin/oxlint");
      const failed = await run(linter, ["--format=json", "src"], { cwd: folder }).then(
        () => ({ stdout: "{}" }),
        (error: { stdout: string }) => error,
      );
      const { diagnostics = [] } = JSON.parse(failed.stdout);
      const codes = diagnostics.map(({ code }: { code: string }) => code);
      expect(codes.some((code: string) => code.includes("no-cycle"))).toBe(true);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
