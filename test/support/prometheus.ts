/** Prometheus and promtool as Debian packages them (`apt-get install -y prometheus`). */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parse, stringify } from "yaml";

export const DEPLOY = join(import.meta.dirname, "../../deploy");
/** How long it may take to answer, milliseconds. */
const PATIENCE_MS = 30_000;

/** Why tests that need them cannot run; null: they can. */
export function prometheusMissing(): string | null {
  const missing = ["prometheus", "promtool"].filter(
    (program) => spawnSync(program, ["--version"]).error !== undefined,
  );
  if (missing.length === 0) return null;
  return `${missing.join(" and ")} not installed: apt-get install -y prometheus`;
}

export interface Said {
  readonly code: number | null;
  readonly text: string;
}

/** Runs promtool to its end; `input` is what it reads. */
export function promtool(words: readonly string[], input = ""): Said {
  const { status, stdout, stderr } = spawnSync("promtool", words, { input, encoding: "utf8" });
  return { code: status, text: stdout + stderr };
}

export interface Prometheus extends AsyncDisposable {
  /** The `data` of an answer of its HTTP API; throws where that is an error. */
  ask(path: string, parameters?: Readonly<Record<string, string>>): Promise<unknown>;
}

/**
 * Runs with the shipped configuration, but that it scrapes this address, and every second, and that these alerts wait for
 * a second only.
 */
export async function startPrometheus(
  port: number,
  target: string,
  soon: readonly string[] = [],
): Promise<Prometheus> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-prometheus-"));
  const file = join(folder, "prometheus.yml");
  const rules = join(folder, "alerts.yaml");
  await writeFile(rules, await alertsFor(soon));
  await writeFile(file, await configFor(target, rules));
  const words = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(folder, "data")}`,
    `--web.listen-address=127.0.0.1:${port}`,
    "--enable-feature=exemplar-storage",
    "--log.level=warn",
  ];
  const child = spawn("prometheus", words, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await once(child, "close");
    }
    await rm(folder, { recursive: true, force: true });
  };
  const url = `http://127.0.0.1:${port}`;
  const deadline = AbortSignal.timeout(PATIENCE_MS);
  while (!(await fetch(`${url}/-/ready`).catch(() => undefined))?.ok) {
    if (child.exitCode !== null || deadline.aborted) {
      await stop();
      throw new Error(`prometheus does not run: ${said}`);
    }
    await pause(50);
  }
  return {
    async ask(path, parameters = {}) {
      const query = new URLSearchParams(parameters).toString();
      const answer = await fetch(`${url}/api/v1/${path}?${query}`);
      const body = Object(await answer.json());
      if (body.status !== "success") throw new Error(`${path} ${query}: ${body.error}`);
      return body.data;
    },
    [Symbol.asyncDispose]: stop,
  };
}

async function alertsFor(soon: readonly string[]): Promise<string> {
  const alerts = Object(parse(await readFile(join(DEPLOY, "prometheus/alerts.yaml"), "utf8")));
  for (const { rules } of alerts.groups) {
    for (const rule of rules) if (soon.includes(rule.alert)) rule.for = "1s";
  }
  return stringify(alerts);
}

async function configFor(target: string, rules: string): Promise<string> {
  const text = await readFile(join(DEPLOY, "prometheus/prometheus.yml"), "utf8");
  const config = Object(parse(text));
  config.global = { scrape_interval: "1s", evaluation_interval: "1s" };
  config.rule_files = [rules];
  config.scrape_configs[0].static_configs[0].targets = [target];
  return stringify(config);
}
