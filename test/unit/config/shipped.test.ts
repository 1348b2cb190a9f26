import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  formatProblems,
  parseConfig,
  type Config,
  type ParseResult,
} from "../../../src/config/config.ts";
import { reviewConfig } from "../../../src/diagnosis/config-review.ts";
import {
  KEY,
  keypairFile,
  OTHER_SOLANA_HEX,
  PAYEE,
  SOLANA_ADDRESS,
  SOLANA_BASE58,
} from "./fixture.ts";

const FOLDER = join(import.meta.dirname, "../../../config");

function readFile(): never {
  throw new Error("no file is needed");
}

function parse(
  name: string,
  env: Readonly<Record<string, string>>,
  withoutSecrets = false,
): ParseResult {
  const file = join(FOLDER, name);
  const reading = { review: reviewConfig, env, readFile, withoutSecrets };
  return parseConfig(readFileSync(file, "utf8"), { file, ...reading });
}

/** The variables that each file asks for in its own comments, optional ones left out. */
const SHIPPED: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
  ["minimal.yaml", {}],
  ["ways-to-sell.yaml", {}],
  ["llm.yaml", {}],
  ["newspaper.yaml", {}],
  ["partner-prices.yaml", {}],
  ["mcp.yaml", {}],
  ["demo.yaml", { DEMO_PAY_TO: PAYEE, DEMO_FACILITATOR_KEY: KEY }],
  [
    "demo-solana.yaml",
    {
      DEMO_PAY_TO: PAYEE,
      DEMO_FACILITATOR_KEY: KEY,
      DEMO_SOLANA_PAY_TO: SOLANA_ADDRESS,
      DEMO_SOLANA_FEE_PAYER_KEY: SOLANA_BASE58,
    },
  ],
  ["remote-facilitators.yaml", { PAY_TO: PAYEE, FACILITATOR_TOKEN: "token" }],
  ["several-upstreams.yaml", { PAY_TO: PAYEE, BASE_KEY: KEY, MODEL_KEY: "model-key" }],
  [
    "solana.yaml",
    {
      SOLANA_PAY_TO: SOLANA_ADDRESS,
      SOLANA_KEY: SOLANA_BASE58,
      SOLANA_RPC: "https://rpc.example.com/?api-key=key",
    },
  ],
  ["facilitator.yaml", { FACILITATOR_TOKEN: "token", BASE_SEPOLIA_KEY: KEY }],
  [
    "gateway.example.yaml",
    {
      FACILITATOR_TOKEN: "token",
      WEATHER_TOKEN: "another-token",
      REMOTE_TOKEN: "token",
      BASE_KEY: KEY,
      BASE_RPC: "https://rpc.example.com/v2/key",
      REFUND_KEY: `0x${"07".repeat(32)}`,
      WEBHOOK_SECRET: `whsec_${"A".repeat(43)}=`,
      REFUND_SOLANA_KEY: keypairFile(OTHER_SOLANA_HEX),
      SOLANA_KEY: SOLANA_BASE58,
      SOLANA_RPC: "https://rpc.example.com/?api-key=key",
    },
  ],
];

/** What everything costs on a network, by route. */
function wares(config: Config | undefined, network: string) {
  return config?.routes.map(({ key, action }) => {
    if (action.kind !== "priced") return [key, action.kind];
    const offers = action.offers.filter((each) => each.network === network);
    return [key, ...offers.map(({ dollars }) => dollars)];
  });
}

describe("the configurations that we ship", () => {
  test("are all looked at here", () => {
    const files = readdirSync(FOLDER).filter((name) => name.endsWith(".yaml"));

    expect(SHIPPED.map(([name]) => name).toSorted()).toEqual(files.toSorted());
  });

  test.each(SHIPPED)("%s is accepted with no more than a note", (name, env) => {
    const result = parse(name, env);

    const remarks = result.problems.filter((each) => each.severity !== "note");
    expect(formatProblems(remarks, result.text)).toBe("");
    expect(result.ok).toBe(true);
  });

  test.each(SHIPPED.filter(([, env]) => Object.keys(env).length > 0))(
    "%s says which variables are missing",
    (name, env) => {
      const result = parse(name, {});

      const messages = result.problems
        .filter((each) => each.code === "unset-variable")
        .map((each) => each.message);
      expect(messages.sort()).toEqual(
        Object.keys(env)
          .map((variable) => `the environment variable ${variable} is not set`)
          .sort(),
      );
    },
  );

  test.each([
    ...SHIPPED.map(([name]) => name),
    ...readdirSync(join(FOLDER, "../deploy"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith("/gateway.yaml"))
      .map((name) => `../deploy/${name}`),
  ])("%s is accepted without its secrets, and nothing is left unsaid of it", (name) => {
    const { problems, text } = parse(name, {}, true);

    const remarks = problems.filter((each) => each.severity !== "note");
    expect(formatProblems(remarks, text)).toBe("");
  });

  test.each(["nginx", "haproxy", "caddy", "traefik", "envoy"])(
    "deploy/sidecar/gateway.yaml is accepted for %s",
    (proxy) => {
      const env = { PAY_TO: PAYEE, BASE_SEPOLIA_KEY: KEY, PROXY: proxy };
      const result = parse("../deploy/sidecar/gateway.yaml", env);

      expect(formatProblems(result.problems, result.text)).toBe("");
      expect(result.ok && result.config.sidecar?.proxy).toBe(proxy);
    },
  );

  test("demo.yaml takes every place from the environment", () => {
    const result = parse("demo.yaml", {
      DEMO_PAY_TO: PAYEE,
      DEMO_FACILITATOR_KEY: KEY,
      DEMO_LISTEN: "127.0.0.1:1",
      DEMO_PUBLIC_URL: "http://localhost:1",
      DEMO_UPSTREAM: "http://127.0.0.1:2",
      DEMO_RPC: "http://127.0.0.1:3",
      DEMO_FACILITATOR_LISTEN: "127.0.0.1:4",
      DEMO_ADMIN: "127.0.0.1:5",
      DEMO_STORE: "sqlite:/tmp/demo.db",
    });

    expect(result.ok && result.config).toMatchObject({
      listen: [{ host: "127.0.0.1", port: 1 }],
      publicUrl: "http://localhost:1",
      upstreams: [{ targets: [{ url: "http://127.0.0.1:2" }] }],
      facilitator: { listen: { port: 4 }, embedded: [{ rpc: [{ host: "127.0.0.1:3" }] }] },
      admin: { port: 5 },
      store: { path: "/tmp/demo.db" },
    });
  });

  test("demo-solana.yaml sells what demo.yaml sells, for the same prices, on Solana as well", () => {
    const env = Object.fromEntries(SHIPPED.flatMap(([, each]) => Object.entries(each)));
    const [demo, solana] = ["demo.yaml", "demo-solana.yaml"].map((name) => {
      const result = parse(name, { ...env, DEMO_SOLANA_RPC: "http://127.0.0.1:6" });
      if (!result.ok) throw new Error(formatProblems(result.problems, result.text));
      return result.config;
    });
    expect(wares(solana, "base-sepolia")).toEqual(wares(demo, "base-sepolia"));
    expect(wares(solana, "solana-devnet")).toEqual(wares(demo, "base-sepolia"));
    expect(solana?.facilitator.embedded).toMatchObject([
      { network: "base-sepolia" },
      { network: "solana-devnet", rpc: [{ host: "127.0.0.1:6" }] },
    ]);
  });
});
