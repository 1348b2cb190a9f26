/** What is shipped for an operator's day fits together, and names what there is. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { DEPLOY, prometheusMissing, promtool } from "../../support/prometheus.ts";
import { runCoinslot } from "../../support/serve.ts";

// promtool goes through hours of minutes for each alert.
vi.setConfig({ testTimeout: 60_000 });

const ALERTS = join(DEPLOY, "prometheus/alerts.yaml");
const DASHBOARD = join(DEPLOY, "grafana/dashboards/coinslot.json");
const RUNBOOK = join(DEPLOY, "RUNBOOK.md");
const MISSING = prometheusMissing();
const SEVERITIES = ["critical", "warning", "info"];
const PARTS = ["What it means.", "What buyers see.", "How to look.", "What to do."];

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

async function alerts(): Promise<readonly Alert[]> {
  const { groups } = parse(await readFile(ALERTS, "utf8"));
  return groups.flatMap(({ rules }: { readonly rules: readonly Alert[] }) => rules);
}

/** Text of each section by its title. */
async function sections(): Promise<ReadonlyMap<string, string>> {
  const [, ...parts] = (await readFile(RUNBOOK, "utf8")).split(/^## /m);
  return new Map(parts.map((part) => [part.split("\n", 1)[0] ?? "", part]));
}

async function knownMetrics(): Promise<ReadonlySet<string>> {
  const metrics = new Metrics("test");
  metrics.observeWorkers(() => ({ listening: 1, deaths: 0 }));
  metrics.observePlaces(() => ({ taken: 0, waiting: 0, total: 1, evicted: 0 }));
  const families = await metrics.registry.snapshot();
  return new Set(
    families.flatMap(({ name, type }) =>
      type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => name + end) : [name],
    ),
  );
}

function metricsIn(text: string): readonly string[] {
  return [...new Set(text.match(/\b(?:coinslot|nodejs|process)_[a-z0-9_]+\b/g) ?? [])];
}

describe("the alerts", () => {
  test.skipIf(MISSING !== null)(
    `fire when they should and only then (promtool: ${MISSING ?? "installed"})`,
    () => {
      const rules = promtool(["check", "rules", ALERTS]);
      expect(rules).toMatchObject({ code: 0 });
      const tests = promtool(["test", "rules", join(DEPLOY, "prometheus/alerts.test.yaml")]);
      expect(tests).toMatchObject({ code: 0, text: expect.stringContaining("SUCCESS") });
      expect(promtool(["check", "config", join(DEPLOY, "prometheus/prometheus.yml")]).code).toBe(0);
    },
  );

  test("are each shown to fire, and not to", async () => {
    const { tests } = parse(await readFile(join(DEPLOY, "prometheus/alerts.test.yaml"), "utf8"));
    const shown = tests.flatMap(({ alert_rule_test: cases }: Record<string, readonly Shown[]>) =>
      (cases ?? []).map(({ alertname, exp_alerts: found }) => `${alertname} ${found.length > 0}`),
    );
    for (const { alert } of await alerts()) {
      expect(shown).toContain(`${alert} true`);
      expect(shown).toContain(`${alert} false`);
    }
  });

  test("each say how bad it is, why, and where to read on", async () => {
    const known = await sections();
    for (const { alert, labels, annotations } of await alerts()) {
      expect(SEVERITIES, alert).toContain(labels["severity"]);
      expect(annotations["summary"]?.length, alert).toBeGreaterThan(30);
      // Said once for all of them, as a label of Prometheus: nothing, or where the runbook is.
      const section = `RUNBOOK.md#${alert.toLowerCase()}`;
      expect(annotations["runbook_url"]).toBe(`{{ $externalLabels.runbook }}${section}`);
      expect([...known.keys()]).toContain(alert);
    }
    expect([...known.keys()]).toEqual((await alerts()).map(({ alert }) => alert));
  });
});

function bare(name: string): string {
  return name.replace(/_(?:bucket|sum|count)$/, "");
}

interface Shown {
  readonly alertname: string;
  readonly exp_alerts: readonly unknown[];
}

describe("the runbook", () => {
  test("has four parts for each alert", async () => {
    for (const [title, text] of await sections()) {
      const found = [...text.matchAll(/^\*\*(.+?)\*\*/gm)].map(([, part]) => part);
      expect(found, title).toEqual(PARTS);
    }
  });

  test("names commands and options that exist", async () => {
    const text = await readFile(RUNBOOK, "utf8");
    const helps = new Map<string, string>();
    const named = [...text.matchAll(/(?:^|`)coinslot ([a-z]+)([^`\n]*)/gm)];
    expect(named.length).toBeGreaterThan(10);
    for (const [whole, command = "", rest = ""] of named) {
      if (!helps.has(command)) {
        const { code, stdout } = await runCoinslot([command, "--help"]);
        expect(code, whole).toBe(0);
        helps.set(command, stdout);
      }
      for (const option of rest.match(/--[a-z]+/g) ?? []) {
        expect(helps.get(command), whole).toContain(option);
      }
    }
  });

  test("links only to sections that there are", async () => {
    const titles = [...(await sections()).keys()].map((title) => title.toLowerCase());
    const text = await readFile(RUNBOOK, "utf8");
    for (const [, anchor] of text.matchAll(/\]\(#([a-z]+)\)/g)) expect(titles).toContain(anchor);
  });
});

describe("the metrics that are named", () => {
  test.each([ALERTS, DASHBOARD, RUNBOOK])("in %s are there", async (file) => {
    const text = await readFile(file, "utf8");
    const known = await knownMetrics();
    const named = metricsIn(text);
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });

  test("are all on the dashboard, so that nothing is measured for nobody", async () => {
    const shown = new Set(metricsIn(await readFile(DASHBOARD, "utf8")));
    const onDashboard = new Set([...shown].map(bare));
    const own = [...(await knownMetrics())].filter((name) => name.startsWith("coinslot_"));
    const left = new Set(own.map(bare).filter((name) => !onDashboard.has(name)));
    // For whoever looks closer: when it was, how the checks of targets went, and why a certificate is about to end.
    expect(left).toEqual(
      new Set([
        "coinslot_acme_failures_total",
        "coinslot_config_generations_total",
        "coinslot_config_info",
        "coinslot_config_last_reload_success_timestamp_seconds",
        "coinslot_upstream_target_checks_total",
        "coinslot_upstream_target_departures_total",
      ]),
    );
  });
});

describe("the dashboard", () => {
  test("has four rows, and panels that say what they show, side by side", async () => {
    const { panels } = Object(JSON.parse(await readFile(DASHBOARD, "utf8")));
    const rows = panels.filter(({ type }: Panel) => type === "row");
    expect(rows.map(({ title }: Panel) => title)).toEqual([
      "Money",
      "Settlement",
      "Traffic",
      "Health",
    ]);
    const places = new Set<string>();
    for (const { type, title, description = "", gridPos } of panels) {
      if (type !== "row") expect(description.length, title).toBeGreaterThan(5);
      places.add(`${gridPos.x},${gridPos.y}`);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    }
    expect(places.size).toBe(panels.length);
    expect(new Set(panels.map(({ id }: Panel) => id)).size).toBe(panels.length);
  });

  test("is found by Grafana's provisioning", async () => {
    const folder = join(DEPLOY, "grafana/provisioning");
    const source = parse(await readFile(join(folder, "datasources/prometheus.yaml"), "utf8"));
    const provider = parse(await readFile(join(folder, "dashboards/coinslot.yaml"), "utf8"));
    expect(source.datasources).toMatchObject([{ type: "prometheus", isDefault: true }]);
    expect(provider.providers).toMatchObject([{ type: "file" }]);
  });
});

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
}
