/** deploy/compose.yaml: its parts fit together, and give nothing away that they need not. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { freePort } from "../../support/free-port.ts";
import { checkShipped, DEPLOY, drainSeconds, KEY, PAYEE, readYaml } from "./shipped-config.ts";

interface Service {
  readonly image?: string;
  readonly build?: string;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly networks: readonly string[];
  readonly secrets?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, unknown>> | readonly string[];
  readonly stop_grace_period?: string;
  readonly [key: string]: unknown;
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

/** A port that only the operator's tools use. */
const ADMIN_PORT = 9402;
const composing = spawnSync("docker-compose", ["--version"]).error === undefined;

async function compose(): Promise<Compose> {
  return (await readYaml("compose.yaml")) as Compose;
}

function on(services: Compose["services"], network: string): readonly string[] {
  return Object.keys(services).filter((name) => services[name]?.networks.includes(network));
}

test.skipIf(!composing)(
  `is accepted by compose (docker-compose: ${composing ? "installed" : "apt-get install -y docker-compose"})`,
  () => {
    const words = ["-f", join(DEPLOY, "compose.yaml"), "config", "-q"];
    const env = { PATH: process.env["PATH"] ?? "" };
    const { status, stderr } = spawnSync("docker-compose", words, {
      env: { ...env, PAY_TO: PAYEE },
      encoding: "utf8",
    });
    expect([status, stderr]).toEqual([0, ""]);
    const unpaid = spawnSync("docker-compose", words, { env, encoding: "utf8" });
    expect(unpaid.stderr).toContain("the address that is paid");
  },
);

test("the gateway's configuration passes check --strict, and stops before it is killed", async () => {
  const { services } = await compose();
  const { environment = {}, stop_grace_period: grace = "" } = services["gateway"] ?? {};
  const { strict, config } = await checkShipped(join(DEPLOY, "gateway/gateway.yaml"), {
    path: "/run/secrets",
    files: { postgres_password: "correct-horse\n", facilitator_key: `${KEY}\n` },
    env: {
      ...environment,
      PAY_TO: PAYEE,
      // As compose fills it in.
      PUBLIC_URL: environment["PUBLIC_URL"]?.replace(/^\$\{PUBLIC_URL:-(.+)\}$/, "$1") ?? "",
    },
  });
  expect(strict).toMatchObject({ code: 0, stderr: "" });
  expect(Number.parseInt(grace, 10)).toBeGreaterThan(drainSeconds(config));
  expect(config).toMatchObject({
    listen: [{ port: 8402 }],
    admin: { host: "0.0.0.0", port: ADMIN_PORT },
    store: { kind: "postgres" },
    upstreams: [{ targets: [{ url: "http://backend:3000" }] }],
  });
  expect(Object.keys(services)).toEqual(expect.arrayContaining(["backend", "postgres"]));
});

describe("every service", async () => {
  const { services, networks, volumes, secrets } = await compose();

  test.each(Object.entries(services))("%s can change and gain nothing", (_, service) => {
    expect(service).toMatchObject({
      restart: "unless-stopped",
      read_only: true,
      cap_drop: ["ALL"],
      security_opt: ["no-new-privileges:true"],
      cpus: expect.any(Number),
      mem_limit: expect.stringMatching(/^\d+m$/),
      pids_limit: expect.any(Number),
    });
  });

  test.each(Object.entries(services))("%s is of one version", (_, { image = "" }) => {
    expect(image).toMatch(/:v?\d+\.\d+/);
  });

  test.each(Object.entries(services))(
    "%s names networks, secrets and services that there are",
    (_, service) => {
      const { secrets: own = [], environment = {}, depends_on: before = [] } = service;
      for (const name of service.networks) expect(networks).toHaveProperty(name);
      for (const name of own) expect(secrets).toHaveProperty(name);
      const used = Object.values(environment).flatMap(
        (each) => /^\/run\/secrets\/(.+)$/.exec(each)?.[1] ?? [],
      );
      expect(own).toEqual(expect.arrayContaining(used));
      for (const name of Array.isArray(before) ? before : Object.keys(before)) {
        expect(services).toHaveProperty(name);
      }
    },
  );

  test.each(Object.entries(services))(
    "%s mounts what there is",
    async (_, { volumes: own = [] }) => {
      for (const volume of own) {
        const [source = ""] = volume.split(":");
        if (source.startsWith(".")) await stat(join(DEPLOY, source));
        else expect(volumes).toHaveProperty(source);
      }
    },
  );

  test("publishes only what buyers need, but to this machine", () => {
    const published = Object.entries(services).flatMap(([name, { ports = [] }]) =>
      ports.map((port) => `${name} ${port}`),
    );
    expect(published.filter((each) => !each.includes(" 127.0.0.1:"))).toEqual([
      "gateway 8402:8402",
    ]);
    expect(published.join(" ")).not.toContain(String(ADMIN_PORT));
  });

  test("is reached by whom it serves, and the ledger and the backend by the gateway alone", () => {
    expect(on(services, "store")).toEqual(["gateway", "postgres"]);
    expect(on(services, "backend")).toEqual(["gateway", "backend"]);
    expect(on(services, "metrics")).toEqual(["gateway", "prometheus", "grafana"]);
    for (const network of ["store", "backend", "metrics"]) {
      expect(networks[network]?.internal, network).toBe(true);
    }
  });
});

test("Prometheus and Grafana find what is shipped for them", async () => {
  const { services } = await compose();
  const { scrape_configs: jobs, rule_files: rules } = Object(
    await readYaml("prometheus/prometheus.yml"),
  );
  expect(jobs).toMatchObject([{ static_configs: [{ targets: [`gateway:${ADMIN_PORT}`] }] }]);
  for (const rule of rules) await stat(join(DEPLOY, "prometheus", rule));
  expect(services["prometheus"]?.volumes).toContain("./prometheus:/etc/prometheus:ro");
  const { datasources } = Object(
    await readYaml("grafana/provisioning/datasources/prometheus.yaml"),
  );
  expect(datasources[0].url).toBe("http://prometheus:9090");
  const { providers } = Object(await readYaml("grafana/provisioning/dashboards/coinslot.yaml"));
  expect(services["grafana"]?.volumes).toContain(
    `./grafana/dashboards:${providers[0].options.path}:ro`,
  );
});

test("the sample backend answers, and ends when it is told to", async () => {
  const port = await freePort();
  const child = spawn(process.execPath, [join(DEPLOY, "backend.mjs")], {
    env: { PORT: String(port) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    await once(child.stdout, "data");
    const url = `http://127.0.0.1:${port}`;
    const headers = { "x-402-payer": PAYEE, connection: "close" };
    expect(await (await fetch(`${url}/hello`, { headers })).json()).toEqual({ hello: PAYEE });
    expect(await (await fetch(`${url}/health`)).json()).toEqual({ ok: true });
    expect((await fetch(`${url}/other`)).status).toBe(404);
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
  } finally {
    child.kill("SIGKILL");
  }
});
