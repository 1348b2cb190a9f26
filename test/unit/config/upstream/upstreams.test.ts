import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { AUTHORITY, GATEWAY_CERTIFICATE, GATEWAY_KEY } from "../../../support/upstream-tls.ts";
import { GATEWAY, parse, TOKEN } from "../fixture.ts";

function upstreamOf(yaml: string) {
  const text = GATEWAY.replace("upstream: http://localhost:3000\n", "");
  const [upstream] = parse(`${text}
upstreams:
  api:
${yaml.replace(/^/gm, "    ")}
routes:
  GET /v1/weather: $0.01
`).upstreams;
  if (upstream === undefined) throw new Error("there is no upstream");
  return upstream;
}

describe("an upstream", () => {
  test("means what is written", () => {
    const upstream = upstreamOf(`
targets: [{ url: https://10.0.0.11:3000, weight: 3 }, https://10.0.0.12:3000]
balance: hash(ip)
health: { path: /healthz, interval: 20s, timeout: 3s, up: 4, down: 5 }
timeouts: { connect: 1s, response: 2s, idle: 3s }
retry: { attempts: 3, methods: [GET, PUT], on: [connect-failure, 502, "503"] }
tls:
  ca: /run/tls/ca.pem
  serverName: api.internal
  cert: /run/tls/gateway.pem
  key: /run/tls/gateway.key
protocol: h2
host: api.internal
path: { strip: /v1/, prefix: /internal }
headers: { set: { X-Api-Key: "\${TOKEN}" }, remove: [X-Powered-By] }
`);

    expect(upstream).toMatchObject({
      name: "api",
      targets: [
        { url: "https://10.0.0.11:3000", weight: 3 },
        { url: "https://10.0.0.12:3000", weight: 1 },
      ],
      balance: "hash(ip)",
      health: { path: "/healthz", intervalMs: 20_000, timeoutMs: 3_000, up: 4, down: 5 },
      connectTimeoutMs: 1_000,
      responseTimeoutMs: 2_000,
      idleTimeoutMs: 3_000,
      retry: { attempts: 3, methods: ["GET", "PUT"], on: ["connect-failure", "502", "503"] },
      tls: { ca: AUTHORITY.trim(), serverName: "api.internal", cert: GATEWAY_CERTIFICATE.trim() },
      protocol: "h2",
      host: { kind: "name", name: "api.internal" },
      path: { strip: "/v1", prefix: "/internal" },
      headers: { remove: ["x-powered-by"] },
    });
    expect(upstream.tls.key?.reveal()).toBe(GATEWAY_KEY.trim());
    expect(upstream.headers.set.map(({ name, value }) => [name, value.reveal()])).toEqual([
      ["X-Api-Key", TOKEN],
    ]);
  });

  test("fills in what is not written of a block", () => {
    const upstream = upstreamOf(`
targets: [http://10.0.0.11:3000]
health: { path: /healthz, interval: 1s }
retry: { attempts: 1 }
`);

    expect(upstream.health).toEqual({
      path: "/healthz",
      intervalMs: 1_000,
      timeoutMs: 1_000,
      up: 2,
      down: 3,
    });
    expect(upstream.retry).toEqual({
      attempts: 1,
      methods: ["GET", "HEAD", "OPTIONS"],
      on: ["connect-failure", "connection-lost"],
    });
  });

  test("reads the files of tls relative to the configuration", () => {
    const upstream = upstreamOf("targets: [https://10.0.0.11]\ntls: { ca: ./internal-ca.pem }");

    expect(upstream.tls).toEqual({
      ca: AUTHORITY.trim(),
      serverName: null,
      cert: null,
      key: null,
    });
  });

  test("writes a path in the one canonical spelling", () => {
    const upstream = upstreamOf("targets: [http://10.0.0.11]\npath: { prefix: /%C3%A9t%C3%A9/ }");

    expect(upstream.path).toEqual({ strip: "", prefix: "/%C3%A9t%C3%A9" });
  });

  test("has the general list of what crosses, or its own in place of it", () => {
    const general = "headers: { allow: [User-Agent, X-Trace] }\n";
    const text = GATEWAY.replace("upstream: http://localhost:3000\n", general);
    const config = parse(`${text}
upstreams:
  one: { targets: [http://10.0.0.11] }
  two: { targets: [http://10.0.0.12], headers: { allow: [] } }
routes:
  GET /weather: { price: $0.01, upstream: one }
`);
    expect(config.upstreams.map(({ headers }) => headers.allow)).toEqual([
      ["user-agent", "x-trace"],
      [],
    ]);
    expect(upstreamOf("targets: [http://10.0.0.11]").headers.allow).toBeNull();
  });

  test("keeps its secrets out of every description of it", () => {
    const upstream = upstreamOf(`
targets: [https://10.0.0.11]
tls: { cert: /run/tls/gateway.pem, key: /run/tls/gateway.key }
headers: { set: { X-Api-Key: "\${TOKEN}" } }
`);

    const described = inspect(upstream, { depth: 9 }) + JSON.stringify(upstream);
    expect(described).not.toContain(TOKEN);
    expect(described).not.toContain(GATEWAY_KEY.split("\n")[1]);
  });
});
