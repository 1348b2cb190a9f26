/** deploy/helm: the chart says what the manifests of deploy/kubernetes say, and no more may be left out. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CHART, manifestsIn, renderChart } from "../../support/helm-chart.ts";
import { DEPLOY } from "./shipped-config.ts";

const MANIFESTS = join(DEPLOY, "kubernetes");
const GATEWAY = readFileSync(join(MANIFESTS, "gateway.yaml"), "utf8");
const ALL = {
  gateway: GATEWAY,
  monitoring: { enabled: true },
  ingress: { enabled: true },
  autoscaling: { enabled: true },
};
/** What Kubernetes makes by other means, the alerts (which are Go templates themselves), and what nobody applies as it is. */
const ELSEWHERE: ReadonlySet<unknown> = new Set(["Namespace", "PrometheusRule", "Secret"]);

function kindOf(manifest: unknown): string {
  const { kind, metadata } = Object(manifest);
  return `${kind} ${metadata.name}`;
}

function byKind(manifests: readonly unknown[]): ReadonlyMap<string, unknown> {
  return new Map(manifests.map((each) => [kindOf(each), each]));
}

/** Those of deploy/kubernetes, with its image, its configuration and, where it scales, its patch. */
function kustomized(isScaled: boolean): ReadonlyMap<string, unknown> {
  const files = readdirSync(MANIFESTS, { recursive: true, encoding: "utf8" });
  const named = files.filter((name) => /(?<!gateway|kustomization)\.yaml$/.test(name));
  const all = named.flatMap((name) => manifestsIn(readFileSync(join(MANIFESTS, name), "utf8")));
  const [kustomization] = manifestsIn(readFileSync(join(MANIFESTS, "kustomization.yaml"), "utf8"));
  const [{ newName, newTag }] = Object(kustomization).images;
  const manifests = all.filter((each) => !ELSEWHERE.has(Object(each).kind));
  const deployment = Object(manifests.find((each) => Object(each).kind === "Deployment"));
  deployment.spec.template.spec.containers[0].image = `${newName}:${newTag}`;
  if (isScaled) delete deployment.spec.replicas;
  const labels = { "app.kubernetes.io/name": "coinslot" };
  const map = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "coinslot", namespace: "coinslot", labels },
    data: { "gateway.yaml": GATEWAY },
  };
  return byKind([...manifests, map]);
}

/** A block of YAML ends with one line feed. */
function withOneEnd(manifests: readonly unknown[]): ReadonlyMap<string, unknown> {
  const map = Object(manifests.find((each) => Object(each).kind === "ConfigMap")).data;
  map["gateway.yaml"] = `${map["gateway.yaml"].trimEnd()}\n`;
  return byKind(manifests);
}

describe("the chart", () => {
  test("is the manifests, with everything that not every cluster has", () => {
    const rendered = withOneEnd(renderChart(ALL));
    expect([...rendered.keys()].toSorted()).toEqual([...kustomized(true).keys()].toSorted());
    expect(rendered).toEqual(kustomized(true));
  });

  test("leaves that out by default, and has the number of pods then", () => {
    const rendered = withOneEnd(renderChart({ gateway: GATEWAY }));
    const expected = new Map(kustomized(false));
    for (const kind of ["Service coinslot-metrics", "ServiceMonitor coinslot", "Ingress coinslot"])
      expect(expected.delete(kind)).toBe(true);
    expect(expected.delete("HorizontalPodAutoscaler coinslot")).toBe(true);
    expect(rendered).toEqual(expected);
    const policy = renderChart({ gateway: GATEWAY, networkPolicy: { enabled: false } });
    expect(policy.map(kindOf)).not.toContain("NetworkPolicy coinslot");
  });

  test("takes each value where it is said to", () => {
    const given = {
      ...ALL,
      image: { repository: "r.example/c", tag: "9" },
      secret: "mine",
      terminationGracePeriodSeconds: 77,
      resources: { limits: { memory: "1Gi" } },
      networkPolicy: { monitoringNamespace: "watchers", egress: [{ ports: [{ port: 6543 }] }] },
      ingress: {
        enabled: true,
        className: "other",
        host: "pay.example.com",
        tlsSecret: "tls",
        annotations: { a: "1" },
      },
      autoscaling: { enabled: true, minReplicas: 3, maxReplicas: 30, cpu: "800m" },
    };
    const text = JSON.stringify(renderChart(given));
    const words = [
      "r.example/c:9",
      "mine",
      ":77",
      "1Gi",
      "watchers",
      "6543",
      '"other"',
      "pay.example.com",
    ];
    for (const word of [...words, '"tls"', '"a":"1"', ":3,", ":30,", "800m"])
      expect(text).toContain(word);
    const replicas = renderChart({ gateway: GATEWAY, replicas: 5 });
    expect(JSON.stringify(replicas)).toContain('"replicas":5');
  });

  test("wants the configuration, and says how it is given", () => {
    expect(() => renderChart({})).toThrow("--set-file gateway=gateway.yaml");
  });

  test("has the version of the program", () => {
    const [chart] = manifestsIn(readFileSync(join(CHART, "Chart.yaml"), "utf8"));
    const { version } = JSON.parse(readFileSync(join(DEPLOY, "../package.json"), "utf8"));
    expect(chart).toMatchObject({ version, appVersion: version });
    const [values] = manifestsIn(readFileSync(join(CHART, "values.yaml"), "utf8"));
    expect(values).toMatchObject({ image: { tag: version } });
  });
});
