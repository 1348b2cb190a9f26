/** Every command that a paper shows is run: here, before a real gateway, or by what the table of `commands.ts` names. */
import { execFileSync, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import packageJson from "../../../package.json" with { type: "json" };
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { present, richBuyer, sign } from "../../support/buyer.ts";
import { startChain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { commandsOf, papers, ROOT } from "../../support/paper-commands.ts";
import { freshAccount } from "../../support/payer.ts";
import { Site, type Served } from "../../support/serve.ts";
import { runHere } from "../cli/run-here.ts";
import { RUNS, shortened, type Run } from "./commands.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

/** How long the gateway may take to start, on a machine that is busy with other tests. */
const START_TIMEOUT_MS = 60_000;

const shown = papers().flatMap((paper) =>
  commandsOf(paper).map((command) => ({ paper: paper.name, command })),
);
const commands = [...new Set(shown.map(({ command }) => command))];

function runsOf(command: string): readonly Run[] {
  return RUNS.filter(({ like }) => like.test(shortened(command)));
}

function read(name: string): string {
  return readFileSync(join(ROOT, name), "utf8");
}

describe("what a paper shows", () => {
  test("is found: blocks, lines within a text, and each paper that has some", () => {
    expect(commands).toContain("npm ci && npm run demo");
    expect(commands).toContain("$LOGS | grep PAYMENT");
    expect(commands).toContain("npm run bench:verify");
    expect(new Set(shown.map(({ paper }) => paper)).size).toBeGreaterThan(8);
  });

  test.each(shown)("is run in one way that is told: $command ($paper)", ({ command }) => {
    expect(
      runsOf(command),
      "no line of commands.ts says how it is run, or several do",
    ).toHaveLength(1);
  });

  test("is all that is told of", () => {
    const all = commands.map(shortened);
    const unused = RUNS.filter(({ like }) => !all.some((command) => like.test(command)));
    expect(unused.map(({ like }) => like.source)).toEqual([]);
  });

  test.each(RUNS.filter(({ how }) => how !== "here"))("is run there: $like", (run) => {
    if (run.how === "ci") expect(read(".ci/run")).toContain(run.line);
    if (run.how === "test") expect(read(run.test)).toContain(run.words);
    if (run.how === "not run") expect(read(run.instead)).toContain(run.words);
    if (run.how === "short") {
      for (const name of [run.test, run.script]) {
        expect(read(name), name).toMatch(new RegExp(`\\b${run.calls}\\(`));
      }
    }
  });

  // So that no name of a script stands for another one's work.
  test.each(commands.filter((command) => /^npm run (?!-s coinslot )/.test(command)))(
    "is the command's own script that is run: %s",
    (command) => {
      const [, name = ""] = /^npm run (?:-s )?(\S+)/.exec(command) ?? [];
      const script = Object(packageJson.scripts)[name];
      expect(script).toEqual(expect.any(String));
      const file = /node (?:--expose-gc )?(test\/\S+\.ts)/.exec(script)?.[1];
      const [run] = runsOf(command);
      if (run?.how === "short") {
        const imported = file === undefined ? "" : read(file);
        const isIts = run.script === file || imported.includes(`/${basename(run.script)}"`);
        expect(isIts, `${run.script} is no part of ${file}`).toBe(true);
      }
      if (run?.how === "test") {
        const itself = basename(file ?? "none.ts");
        expect(read(run.test), `${run.test} does not start ${itself}`).toContain(itself);
      }
    },
  );
});

describe("what an operator types", () => {
  const closing = new AsyncDisposableStack();
  const env = { SIGNER: freshAccount().privateKey };
  let folder: string;
  let site: Site;
  let served: Served;
  let facilitatorUrl: string;
  /** Of the payment that is owed. */
  let owed: { readonly key: string; readonly payment: string; readonly requestId: string };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-papers-"));
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    const chain = closing.use(await startChain());
    const signer = freshAccount();
    env.SIGNER = signer.privateKey;
    await chain.fund(signer.address, 0n, 10n ** 18n);
    const backend = createServer((request, response) => {
      response.writeHead(request.url === "/broken" ? 500 : 200).end("fine");
    });
    const backendUrl = await open(backend);
    site = closing.use(await Site.create({ store: `sqlite:${join(folder, "coinslot.db")}` }));
    const port = await freePort();
    facilitatorUrl = `http://127.0.0.1:${port}`;
    served = await site.serve(
      `
upstream: ${backendUrl}
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator:
  listen: 127.0.0.1:${port}
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
routes:
  GET /weather: $0.01
  GET /broken: $0.01
`,
      env,
    );
    await served.untilReady(200, START_TIMEOUT_MS);
    const buyer = await richBuyer(chain);
    for (const [path, status] of [
      ["weather", 200],
      ["broken", 500],
    ] as const) {
      const url = `${served.url}/${path}`;
      expect((await present(url, await sign(buyer, url))).status).toBe(status);
    }
    // It is stored a moment after the answer.
    const key = await vi.waitUntil(
      async (): Promise<string | undefined> => {
        const listed = await runHere(["payments", site.file, "--undelivered", "--json"], env);
        return JSON.parse(listed.stdout).payments[0]?.key;
      },
      { timeout: 20_000 },
    );
    const said = served.output().stdout.split("\n");
    const line = said.find((each) => each.includes("paid and not served")) ?? "{}";
    owed = { key, ...JSON.parse(line) };
    expect(owed).toMatchObject({ payment: expect.any(String), requestId: expect.any(String) });
    await writeFile(join(folder, "log"), served.output().stdout);
  });

  afterAll(() => closing.disposeAsync());

  async function open(server: Server): Promise<string> {
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    closing.defer(() => drain(server, AbortSignal.timeout(1_000)));
    return `http://127.0.0.1:${port}`;
  }

  const here = commands.flatMap((command) => {
    const [run] = runsOf(command);
    return run?.how === "here" ? [{ command, codes: run.codes ?? [0] }] : [];
  });
  const isOurs = ({ command }: { readonly command: string }): boolean =>
    shortened(command).startsWith("coinslot ");

  const typed = here.filter((each) => !isOurs(each));
  let done: readonly {
    readonly status: number;
    readonly stdout: string;
    readonly stderr: string;
  }[];

  /** All of them in one shell, each with what it leaves open filled in: a shell for each takes a minute. */
  async function typeAll(): Promise<void> {
    const lines = typed.map(({ command }, at) => {
      const filled = command
        .replace("PAYMENT", owed.payment)
        .replace("REQUEST_ID", owed.requestId)
        .replace("http://…/PRICED", `${served.url}/weather`)
        .replace("https://FACILITATOR", facilitatorUrl);
      return `(${filled}) >${at}.out 2>${at}.err; echo $? >${at}.status`;
    });
    const settings = {
      ADMIN: site.adminUrl,
      CONFIG: site.file,
      LOGS: `cat ${join(folder, "log")}`,
      PATH: process.env["PATH"] ?? "",
    };
    await writeFile(join(folder, "all.sh"), lines.join("\n"));
    spawnSync("bash", ["-o", "pipefail", "all.sh"], { cwd: folder, env: settings });
    done = typed.map((_, at) => {
      const [stdout = "", stderr = "", status = ""] = ["out", "err", "status"].map((part) =>
        readFileSync(join(folder, `${at}.${part}`), "utf8"),
      );
      return { stdout, stderr, status: Number(status) };
    });
  }

  test.each(typed.map(({ command, codes }, at) => ({ command, codes, at })))(
    "works in a shell: $command",
    async ({ command, codes, at }) => {
      if (done === undefined) await typeAll();
      const { status = -1, stdout = "", stderr = "" } = done[at] ?? {};
      // What is looked for with grep need not be there: nothing is wrong with this gateway.
      const allowed = command.includes("| grep") ? [0, 1] : codes;
      expect(allowed, stderr).toContain(status);
      // Curl tells how it gets on, but for `-s`.
      expect(stderr.replace(/^(?: +%.*\n)?.*Dload[^]*/m, "")).toBe("");
      if (/PAYMENT|REQUEST_ID|PRICED|FACILITATOR|paid and not served/.test(command)) {
        expect(stdout).not.toBe("");
      }
    },
  );

  const ours = here.filter(isOurs).map(({ command }) => shortened(command));
  // Who resolves without serving waits until nobody serves.
  const [later, now] = [/^coinslot recover/, /^coinslot (?!recover|serve)/].map((like) =>
    ours.filter((command) => like.test(command)),
  );

  function wordsOf(command: string): readonly string[] {
    const [first = "", ...rest] = command.replace(/^coinslot /, "").split(" ");
    const places: Readonly<Record<string, string>> = {
      FILE: site.file,
      KEY: owed.key,
      URL: `${served.url}/weather`,
      PATH: join(folder, "over.jsonl"),
    };
    const words = [first, ...rest.map((word) => places[word] ?? word)];
    if (/^(?:check|payments|recover)$/.test(first) && !rest.includes("FILE"))
      words.splice(1, 0, site.file);
    if (words.at(-1) === "--show") words.push(owed.key);
    return words;
  }

  test("serves, as the stage that all of this stands on", () => {
    expect(ours.some((command) => command.startsWith("coinslot serve"))).toBe(true);
    expect(served.output().stderr).toContain(served.url);
  });

  test.each([...new Set(now)])("works: %s", async (command) => {
    const done = await runHere(wordsOf(command), env);
    expect(done).toMatchObject({ code: 0 });
    if (command.includes("--show")) expect(done.stdout).toContain(owed.key);
    if (command.includes("--export")) {
      expect(readFileSync(join(folder, "over.jsonl"), "utf8").trim().split("\n")).toHaveLength(1);
    }
  });

  test.each([...new Set(later)])("works where nobody serves: %s", async (command) => {
    await served.end("SIGTERM");
    expect(await runHere(wordsOf(command), env)).toMatchObject({ code: 0 });
  });

  test("keeps a ledger whole that is copied while it is open, and made smaller when it is not", async () => {
    const [path, copy] = [join(folder, "coinslot.db"), join(folder, `copy-${randomUUID()}.db`)];
    {
      using open = new DatabaseSync(path);
      await backup(open, copy);
      open.exec("VACUUM");
    }
    await writeFile(site.file, readFileSync(site.file, "utf8").replace(path, copy));
    const { stdout } = await runHere(["payments", site.file, "--json"], env);
    expect(JSON.parse(stdout).payments).toHaveLength(2);
    expect(execFileSync("stat", ["-c", "%a", path], { encoding: "utf8" })).toBe("600\n");
  });
});
