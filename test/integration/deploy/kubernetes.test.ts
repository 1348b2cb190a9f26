/** deploy/kubernetes: what one manifest names the others have, and what the cluster asks the gateway answers. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { mkdir, readdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { createAdminHandler } from "../../../src/admin/admin.ts";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { MIGRATION_TIMEOUT_MS } from "../../../src/ledger/postgres/postgres-schema.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { Site } from "../../support/serve.ts";
import { checkShipped, DEPLOY, drainSeconds, KEY, readYaml } from "./shipped-config.ts";

const FOLDER = join(DEPLOY, "kubernetes");
const RULE = join(FOLDER, "monitoring/prometheus-rule.yaml");
const SECRETS = "/run/secrets/coinslot";
const hasKubectl = spawnSync("kubectl", ["version", "--client"]).error === undefined;
const COMPONENTS = ["monitoring", "public", "scaling"];
/** What closing may take after the drain, seconds. */
const CLOSING_SECONDS = 10;
/** What the kubelet and a busy machine may take, milliseconds. */
const SOON = { timeout: 30_000, interval: 50 };

interface Manifest {
  readonly file: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  /** As it is written. */
  readonly whole: unknown;
}

let manifests: readonly Manifest[];
/** Values of the pods' template, by path. */
let pod: unknown;
let container: unknown;

beforeAll(async () => {
  const names = await readdir(FOLDER, { recursive: true });
  const files = names.filter((name) => /(?<!gateway|kustomization)\.yaml$/.test(name));
  const read = files.map(async (file) => {
    const text = await readFile(join(FOLDER, file), "utf8");
    return parseAllDocuments(text).map((document): Manifest => {
      expect(document.errors, file).toEqual([]);
      const whole = document.toJS();
      return { file, kind: whole.kind, metadata: whole.metadata, whole };
    });
  });
  manifests = (await Promise.all(read)).flat();
  pod = at(the("Deployment"), "spec", "template");
  container = at(pod, "spec", "containers", "0");
});

/** What stands at a path; undefined where the path ends before. */
function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce((inner: unknown, key) => Object(inner ?? {})[key], value);
}

/** A kustomization of ours with those components; it is the caller's to remove. */
function writeOverlay(components: readonly string[]): string {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "coinslot-overlay-"));
  const ours = relative(folder, FOLDER);
  const lines = [
    "apiVersion: kustomize.config.k8s.io/v1beta1",
    "kind: Kustomization",
    `resources: [${ours}]`,
    `components: [${components.map((name) => join(ours, name)).join(", ")}]`,
  ];
  writeFileSync(join(folder, "kustomization.yaml"), `${lines.join("\n")}\n`);
  return folder;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function the(kind: string, name = "coinslot"): unknown {
  const found = manifests.filter((each) => each.kind === kind && each.metadata.name === name);
  expect(
    found.map(({ file }) => file),
    `${kind} ${name}`,
  ).toHaveLength(1);
  return found[0]?.whole;
}

/** The container's port of a name or number; fails where there is none. */
function portOf(wanted: unknown): number {
  const ports = list(at(container, "ports"));
  const found = ports.find(
    (each) => wanted === at(each, "name") || wanted === at(each, "containerPort"),
  );
  expect(found, `port ${String(wanted)}`).toBeDefined();
  return Number(at(found, "containerPort"));
}

function withRoute(value: string): string {
  return `upstream: http://127.0.0.1:1
unmatched: deny
routes: { GET /a: ${value} }
`;
}

/** The gateway's configuration as the pods see it. */
async function checked() {
  const env = list(at(container, "env")).map((each) => [at(each, "name"), at(each, "value")]);
  const secret = Object(at(the("Secret"), "stringData"));
  expect(Object.keys(secret)).toEqual(["database-url", "base-sepolia-key"]);
  return checkShipped(join(FOLDER, "gateway.yaml"), {
    path: SECRETS,
    files: { ...secret, "base-sepolia-key": KEY },
    env: Object.fromEntries(env),
  });
}

describe("the manifests", () => {
  test("are the resources of kustomization.yaml, but for the secret, which nobody applies as it is", async () => {
    const { resources, configMapGenerator: maps } = Object(
      await readYaml("kubernetes/kustomization.yaml"),
    );
    const parts = COMPONENTS.map(async (name) => {
      const component = Object(await readYaml(`kubernetes/${name}/kustomization.yaml`));
      return component.resources.map((each: string) => `${name}/${each}`);
    });
    const named = [...resources, ...(await Promise.all(parts)).flat()];
    expect(new Set([...named, "secret.example.yaml"])).toEqual(
      new Set(manifests.map(({ file }) => file)),
    );
    expect(maps).toMatchObject([{ name: "coinslot", files: ["gateway.yaml"] }]);
    // Another name for each content would be a restart for each price.
    expect(maps[0].options.disableNameSuffixHash).toBe(true);
    for (const { kind, metadata } of manifests) {
      if (kind !== "Namespace") expect(metadata.namespace, kind).toBe("coinslot");
    }
  });

  test("select the pods by labels that they have", () => {
    const labels = at(pod, "metadata", "labels");
    const selectors = [
      at(the("Deployment"), "spec", "selector", "matchLabels"),
      at(the("Service"), "spec", "selector"),
      at(the("Service", "coinslot-metrics"), "spec", "selector"),
      at(the("PodDisruptionBudget"), "spec", "selector", "matchLabels"),
      at(the("NetworkPolicy"), "spec", "podSelector", "matchLabels"),
      ...list(at(pod, "spec", "topologySpreadConstraints")).map((each) =>
        at(each, "labelSelector", "matchLabels"),
      ),
    ];
    expect(selectors).toHaveLength(7);
    for (const selector of selectors) {
      expect(Object.keys(Object(selector)).length).toBeGreaterThan(0);
      expect(labels).toMatchObject(Object(selector));
    }
    const monitored = at(the("ServiceMonitor"), "spec", "selector", "matchLabels");
    expect(at(the("Service", "coinslot-metrics"), "metadata", "labels")).toMatchObject(
      Object(monitored),
    );
    expect(at(the("Service"), "metadata", "labels")).not.toMatchObject(Object(monitored));
  });

  test("name volumes, accounts, maps and secrets that there are", () => {
    const volumes = list(at(pod, "spec", "volumes"));
    expect(volumes).toMatchObject([
      { configMap: { name: "coinslot" } },
      { secret: { secretName: "coinslot", defaultMode: 0o440 } },
    ]);
    const mounts = list(at(container, "volumeMounts"));
    expect(mounts.map((each) => at(each, "name"))).toEqual(volumes.map((each) => at(each, "name")));
    expect(mounts).toMatchObject([
      { mountPath: "/etc/coinslot", readOnly: true },
      { mountPath: SECRETS, readOnly: true },
    ]);
    // Such a file never changes while the pod lives.
    for (const mount of mounts) expect(mount).not.toHaveProperty("subPath");
    expect(at(pod, "spec", "serviceAccountName")).toBe("coinslot");
    for (const each of [at(pod, "spec"), the("ServiceAccount")]) {
      expect(at(each, "automountServiceAccountToken")).toBe(false);
    }
    expect(at(container, "args")).toEqual(["serve", "/etc/coinslot/gateway.yaml"]);
  });

  test("let the pods do nothing that they need not, as the namespace demands", () => {
    expect(at(pod, "spec", "securityContext")).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 10001,
      seccompProfile: { type: "RuntimeDefault" },
    });
    expect(at(container, "securityContext")).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    const standard = "pod-security.kubernetes.io/enforce";
    expect(at(the("Namespace"), "metadata", "labels", standard)).toBe("restricted");
    expect(at(container, "resources", "limits", "memory")).toMatch(/^\d+Mi$/);
  });

  test("run as the user whom the Dockerfile makes", async () => {
    const [, user] =
      /^USER (\d+):/m.exec(await readFile(join(DEPLOY, "../Dockerfile"), "utf8")) ?? [];
    expect(at(pod, "spec", "securityContext", "runAsUser")).toBe(Number(user));
  });
});

describe("the gateway", () => {
  test("has a configuration that passes check --strict, on the ports that the manifests name", async () => {
    const { strict, config } = await checked();
    expect(strict).toMatchObject({ code: 0, stderr: "" });
    expect(config.listen.map(({ port }) => port)).toEqual([portOf("http")]);
    expect(config.admin).toMatchObject({ host: "0.0.0.0", port: portOf("admin") });
    expect(config.store.kind).toBe("postgres");
    for (const [name, port] of [
      ["coinslot", "http"],
      ["coinslot-metrics", "admin"],
    ] as const) {
      const ports = list(at(the("Service", name), "spec", "ports"));
      expect(ports.map((each) => portOf(at(each, "targetPort")))).toEqual([portOf(port)]);
    }
    const [endpoint] = list(at(the("ServiceMonitor"), "spec", "endpoints"));
    expect(at(endpoint, "port")).toBe(
      at(the("Service", "coinslot-metrics"), "spec", "ports", "0", "name"),
    );
  });

  test("is reached by buyers under its public name, through what passes its heads and streams", async () => {
    const { config } = await checked();
    const ingress = the("Ingress");
    const [rule] = list(at(ingress, "spec", "rules"));
    expect(at(rule, "host")).toBe(new URL(String(config.publicUrl)).host);
    expect(at(ingress, "spec", "tls", "0", "hosts")).toEqual([at(rule, "host")]);
    const { name, port } = Object(at(rule, "http", "paths", "0", "backend", "service"));
    expect(at(the("Service", name), "spec", "ports", "0", "name")).toBe(port.name);
    expect(at(ingress, "metadata", "annotations")).toMatchObject({
      "nginx.ingress.kubernetes.io/proxy-buffer-size": "16k",
      "nginx.ingress.kubernetes.io/proxy-next-upstream": "off",
    });
  });

  test("is scaled as the deployment that there is, by nothing less than its replicas", () => {
    const scaler = at(the("HorizontalPodAutoscaler"), "spec");
    const { kind, name } = Object(at(scaler, "scaleTargetRef"));
    expect(at(the(kind, name), "spec", "replicas")).toBe(at(scaler, "minReplicas"));
  });

  test("has the time to drain that its configuration asks for", async () => {
    const { config } = await checked();
    const grace = Number(at(pod, "spec", "terminationGracePeriodSeconds"));
    expect(grace).toBeGreaterThanOrEqual(drainSeconds(config) + CLOSING_SECONDS);
    // The pod is not ready, and known not to be, before it stops accepting.
    const probe = at(container, "readinessProbe");
    const noticed = Number(at(probe, "periodSeconds")) * Number(at(probe, "failureThreshold"));
    expect(config.shutdown.delayMs / 1000).toBeGreaterThan(noticed);
  });

  test("has the time to bring the ledger's tables up to date before it listens", () => {
    const probe = at(container, "startupProbe");
    const patience = Number(at(probe, "periodSeconds")) * Number(at(probe, "failureThreshold"));
    expect(patience * 1000).toBeGreaterThan(MIGRATION_TIMEOUT_MS);
  });

  test("answers every probe, and Prometheus, where they ask", async () => {
    const telemetry = {
      metrics: new Metrics("test"),
      logger: createLogger({ level: "silent", format: "json" }),
    };
    const server = createServer(
      createAdminHandler({ telemetry, readiness: async () => ({ isReady: true, said: [] }) }),
    );
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    try {
      const probes = ["startupProbe", "livenessProbe", "readinessProbe"].map((name) =>
        at(container, name, "httpGet"),
      );
      const paths = probes.map((each) => {
        expect(at(each, "port")).toBe("admin");
        return String(at(each, "path"));
      });
      expect(paths).toEqual(["/livez", "/livez", "/readyz"]);
      const [endpoint] = list(at(the("ServiceMonitor"), "spec", "endpoints"));
      for (const path of [...paths, String(at(endpoint, "path"))]) {
        expect((await fetch(`http://127.0.0.1:${port}${path}`)).status, path).toBe(200);
      }
    } finally {
      await drain(server, AbortSignal.timeout(1_000));
    }
  });

  test("is let out to all that its configuration names, and in on its two ports", async () => {
    const { config } = await checked();
    const policy = at(the("NetworkPolicy"), "spec");
    expect(at(policy, "policyTypes")).toEqual(["Ingress", "Egress"]);
    expect(list(at(policy, "ingress"))).toMatchObject([
      { ports: [{ port: portOf("http") }] },
      { from: [{ namespaceSelector: expect.anything() }], ports: [{ port: portOf("admin") }] },
    ]);
    expect(at(policy, "ingress", "0")).not.toHaveProperty("from");
    const egress = list(at(policy, "egress")).flatMap((each) =>
      list(at(each, "ports")).map((port) => [
        at(each, "to", "0", "podSelector", "matchLabels", "app.kubernetes.io/name"),
        at(port, "port"),
      ]),
    );
    const upstream = new URL(config.upstreams[0]?.targets[0]?.url ?? "");
    const database = new URL(String(at(the("Secret"), "stringData", "database-url")));
    for (const { hostname, port } of [upstream, database]) {
      expect(egress).toContainEqual([hostname, Number(port)]);
    }
    expect(egress).toContainEqual([undefined, 53]);
    expect(egress).toContainEqual([undefined, 443]);
  });

  test("sees a new ConfigMap as the kubelet brings it: one link turned, and the file as it was", async () => {
    await using site = await Site.create();
    const bring = async (version: string, route: string) => {
      await mkdir(join(site.folder, version));
      const text = (await site.head()) + withRoute(route);
      await writeFile(join(site.folder, version, "gateway.yaml"), text);
      await symlink(version, join(site.folder, "..data_tmp"));
      await rename(join(site.folder, "..data_tmp"), join(site.folder, "..data"));
    };
    await bring("..2026_01", "deny");
    await symlink("..data/gateway.yaml", site.file);
    const served = await site.launch({});
    await served.untilReady();
    const asked = async () => (await fetch(`${served.url}/a`)).status;
    expect(await asked()).toBe(403);
    await bring("..2026_02", "free");
    await expect.poll(asked, SOON).toBe(502);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

test("the Prometheus operator gets the alerts as they are for everybody", async () => {
  const alerts = await readFile(join(DEPLOY, "prometheus/alerts.yaml"), "utf8");
  const groups = alerts.slice(alerts.indexOf("groups:"));
  const text = `# The alerts of deploy/prometheus/alerts.yaml, for the Prometheus operator; \`runbook\` of their addresses is under
# \`externalLabels\` of its Prometheus. Renewed with UPDATE_GOLDEN=1 by test/integration/deploy/kubernetes.test.ts.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: coinslot
  namespace: coinslot
  labels: { app.kubernetes.io/name: coinslot }
spec:
${groups.replaceAll(/^(?=.)/gm, "  ")}`;
  if (process.env["UPDATE_GOLDEN"] === "1") await writeFile(RULE, text);
  expect(await readFile(RULE, "utf8")).toBe(text);
});

test.skipIf(!hasKubectl)(
  `kustomize puts them together (${hasKubectl ? "kubectl is installed" : "needs kubectl"})`,
  () => {
    const { status, stdout, stderr } = spawnSync("kubectl", ["kustomize", FOLDER], {
      encoding: "utf8",
    });
    expect([status, stderr]).toEqual([0, ""]);
    const made = parseAllDocuments(stdout).map((each): unknown => each.toJS());
    const map = made.find((each) => at(each, "kind") === "ConfigMap");
    expect(at(map, "metadata", "name")).toBe("coinslot");
    expect(at(map, "data", "gateway.yaml")).toContain("publicUrl:");
    const deployment = made.find((each) => at(each, "kind") === "Deployment");
    expect(at(deployment, "spec", "template", "spec", "containers", "0", "image")).toMatch(
      /\/coinslot:\d/,
    );
    expect(at(deployment, "spec", "replicas")).toBe(2);
    // With all that not every cluster has, as somebody's own kustomization beside ours names it.
    const all = writeOverlay(COMPONENTS);
    const whole = spawnSync(
      "kubectl",
      ["kustomize", all, "--load-restrictor=LoadRestrictionsNone"],
      {
        encoding: "utf8",
      },
    );
    rmSync(all, { recursive: true });
    expect([whole.status, whole.stderr]).toEqual([0, ""]);
    const scaled = parseAllDocuments(whole.stdout).map((each): unknown => each.toJS());
    const kinds = scaled.map((each) => at(each, "kind"));
    for (const kind of ["Ingress", "HorizontalPodAutoscaler", "ServiceMonitor"]) {
      expect(kinds).toContain(kind);
    }
    const one = scaled.find((each) => at(each, "kind") === "Deployment");
    expect(at(one, "spec", "replicas")).toBeUndefined();
  },
);
