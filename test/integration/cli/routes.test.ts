/** `coinslot routes`: the rules of a file, and explanations that a running gateway bears out. */
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  startIdleFacilitator,
  type ScriptedFacilitator,
} from "../../support/scripted-facilitator.ts";
import { Site, type Served } from "../../support/serve.ts";
import { SOLANA_ENV } from "../../support/solana-stage.ts";
import { testKey } from "../../support/solana-messages.ts";
import { DoctorStage } from "./doctor-stage.ts";
import { runHere } from "./run-here.ts";

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const RULES = `upstreams:
  default: { targets: [http://127.0.0.1:1] }
  reports: { targets: [http://127.0.0.1:2], path: { strip: /reports, prefix: /v2 }, host: reports.internal }
payTo: "${PAYEE}"
accept: [{ network: base-sepolia, testnet: true }, { network: avalanche, asset: EURC, amount: "9300" }]
assets:
  EURC: { avalanche: { address: "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD", decimals: 6, eip712: { name: Euro Coin, version: "2" } } }
facilitator: http://127.0.0.1:1
unmatched: deny
cors: true
logging: { level: fatal }
routes:
  /admin/*: deny
  GET /health: free
  GET /weather: { price: $0.01, description: Weather, mimeType: application/json }
  GET /reports/*: { price: $0.02, upstream: reports }
  GET /reports/:id: { price: $0.25, upstream: reports, description: "A report ☂" }
  POST /reports/latest: { price: $0.03, upstream: reports }
  PUT,PATCH /reports/latest: { price: $0.04, upstream: reports }
`;

let stage: DoctorStage;
let file: string;

beforeAll(async () => {
  stage = await DoctorStage.open();
  file = await stage.write("gateway.yaml", `publicUrl: https://api.example.com\n${RULES}`);
});

afterAll(() => stage.closing.disposeAsync());

async function routes(...words: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runHere(["routes", file, ...words]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout;
}

async function explained(...words: readonly string[]) {
  return JSON.parse(await routes(...words, "--json"));
}

describe("all rules", () => {
  test("are a table in the order in which they win, with prices, upstreams and lines", async () => {
    const lines = (await routes()).trimEnd().split("\n");
    expect(lines.map((line) => line.split(/ {2,}/))).toEqual([
      ["METHODS", "PATTERN", "PRICE", "UPSTREAM", "LINE"],
      ["GET,HEAD", "/discovery/resources", "free (the gateway's own)", "-", "-"],
      ["GET,HEAD", "/v2/discovery/resources", "free (the gateway's own)", "-", "-"],
      ["GET,HEAD", "/v2/discovery/search", "free (the gateway's own)", "-", "-"],
      ["GET,HEAD", "/discovery/search", "free (the gateway's own)", "-", "-"],
      ["*", "/admin/*", "deny", "-", "14"],
      ["GET", "/health", "free", "default", "15"],
      ["POST", "/reports/latest", "0.03 USDC on base-sepolia", "reports", "19"],
      ["", "0.0093 EURC on avalanche"],
      ["PUT,PATCH", "/reports/latest", "0.04 USDC on base-sepolia", "reports", "20"],
      ["", "0.0093 EURC on avalanche"],
      ["GET", "/reports/:id", "0.25 USDC on base-sepolia", "reports", "18"],
      ["", "0.0093 EURC on avalanche"],
      ["GET", "/reports/*", "0.02 USDC on base-sepolia", "reports", "17"],
      ["", "0.0093 EURC on avalanche"],
      ["GET", "/weather", "0.01 USDC on base-sepolia", "default", "16"],
      ["", "0.0093 EURC on avalanche"],
      ["*", "unmatched", "deny", "-", "-"],
    ]);
  });

  test("tell what members pay, and for how long a purchase is good", async () => {
    const sold = join(import.meta.dirname, "../../../config/ways-to-sell.yaml");
    const table = await runHere(["routes", sold]);
    expect(table.stdout).toContain("partners: 0.005 USDC on base-sepolia\n");
    expect(table.stdout).toContain("staff: free\n");
    const { rules } = JSON.parse((await runHere(["routes", sold, "--json"])).stdout);
    const at = (path: string) => rules.find(({ pattern }: { pattern: string }) => pattern === path);
    const [archive, rates] = [at("/archive/*"), at("/rates/:currency")];
    expect(at("/.x402/credits/5")).toMatchObject({
      methods: ["GET", "POST"],
      prices: [{ dollars: "$5" }],
      upstream: null,
    });
    expect(at("/lookups/:term")).toMatchObject({ credits: true, upstream: "default" });
    expect(table.stdout).toContain("a session may pay it from what its account has prepaid");
    expect(archive).toMatchObject({ grantMs: 86_400_000 });
    expect(archive.ways).toContain("who has paid has 5 more requests for 1d, signed in");
    expect(table.stdout).toContain("2 requests of an address are free each day (UTC)");
    expect(table.stdout).toContain("the pass month opens it: $15 for 30d at /.x402/passes/month");
    expect(rates.members).toMatchObject({ partners: [{ dollars: "$0.005" }], staff: [] });
    expect([archive.members, rates.grantMs]).toEqual([undefined, undefined]);
  });

  test("tell which of them are tools, by which names, and why others are none", async () => {
    const text = `publicUrl: https://api.example.com\n${RULES}  GET /page: { price: $0.01, mimeType: text/html }\nmcp: true\n`;
    const path = await stage.write("tools.yaml", text);
    const { stdout } = await runHere(["routes", path]);
    expect(stdout).toMatch(/^POST +\/mcp +free \(tools, MCP\)/m);
    expect(stdout).toMatch(/^ +tool get_reports_id$/m);
    expect(stdout).toMatch(/^ +tool put_reports_latest, patch_reports_latest$/m);
    expect(stdout).toMatch(/^ +no tool: its answers are text\/html$/m);
    const { mcp, rules } = JSON.parse((await runHere(["routes", path, "--json"])).stdout);
    expect(mcp).toBe("/mcp");
    const weather = rules.find(
      ({ pattern }: { readonly pattern: string }) => pattern === "/weather",
    );
    expect(weather.tools).toEqual(["get_weather"]);
    const asked = await runHere(["routes", path, "POST", "https://api.example.com/mcp"]);
    expect(asked.stdout).toContain(
      "messages to the tools of this site are answered by the gateway",
    );
  });

  test("are JSON for programs", async () => {
    const { rules, unmatched, listing } = JSON.parse(await routes("--json"));
    expect({ unmatched, listing }).toEqual({
      unmatched: { action: "deny", upstream: null },
      listing: "/discovery/resources",
    });
    expect(rules).toHaveLength(7);
    expect(rules[2]).toEqual({
      key: "POST /reports/latest",
      file: expect.stringMatching(/gateway\.yaml$/),
      line: 19,
      methods: ["POST"],
      pattern: "/reports/latest",
      action: "priced",
      prices: [
        {
          network: "base-sepolia",
          asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
          symbol: "USDC",
          amount: "0.03",
          amountAtomic: "30000",
          dollars: "$0.03",
          payTo: PAYEE,
        },
        expect.objectContaining({ symbol: "EURC", amountAtomic: "9300", dollars: null }),
      ],
      upstream: "reports",
    });
  });
});

describe("a route that is paid after the work", () => {
  test("says so in the table, in JSON, and where a request is explained", async () => {
    const text = RULES.replace("mimeType: application/json }", "settle: after }");
    const after = await stage.write("after.yaml", `publicUrl: https://api.example.com\n${text}`);
    const said = async (...words: readonly string[]) =>
      (await runHere(["routes", after, ...words])).stdout;
    expect(await said()).toContain("0.01 USDC on base-sepolia, after the work");
    const { rules } = JSON.parse(await said("--json"));
    const told = rules.map(({ key, settle }: { key: string; settle?: string }) => [key, settle]);
    expect(Object.fromEntries(told)).toMatchObject({
      "GET /weather": "after",
      "GET /reports/:id": undefined,
    });
    const explained = JSON.parse(await said("GET", "/weather", "--json"));
    expect(explained.notes).toContainEqual(
      expect.stringContaining("only what is goods is charged"),
    );
    const other = JSON.parse(await said("GET", "/reports/1", "--json"));
    expect(other.notes.join()).not.toContain("settle: after");
  });
});

const onSolana = (facilitator: string): string => `publicUrl: https://api.example.com
upstream: http://127.0.0.1:1
payTo: ${testKey(3).address}
accept: [solana-devnet]
facilitator: ${facilitator}
unmatched: deny
routes: { GET /weather: $0.01 }
`;

describe("an explanation", () => {
  test("names the winner, all that it beats and why, and where the request goes", async () => {
    const found = await explained("POST", "https://api.example.com/reports/latest?a=%20b");
    expect(found).toMatchObject({
      target: "/reports/latest?a=%20b",
      path: "/reports/latest",
      query: "a=%20b",
      outcome: "priced",
      rule: { key: "POST /reports/latest", line: 19 },
      beaten: [
        {
          key: "PUT,PATCH /reports/latest",
          line: 20,
          why: "is for PUT, PATCH, not for POST",
        },
        { key: "GET /reports/:id", why: 'is less specific: :id where the winner has "latest"' },
        { key: "GET /reports/*", why: 'is less specific: * where the winner has "latest"' },
      ],
      upstream: {
        upstream: "reports",
        targets: ["http://127.0.0.1:2"],
        target: "/v2/latest?a=%20b",
        host: "reports.internal",
      },
      notes: [],
    });
  });

  test("says why nothing is served, and what is near", async () => {
    expect(await explained("GET", "/Weather")).toMatchObject({
      outcome: "unmatched",
      why: expect.stringContaining("GET /weather is another path"),
      rule: null,
      answer: { status: 404, body: { error: "not found" } },
    });
    expect(await explained("DELETE", "/weather")).toMatchObject({
      outcome: "method-not-allowed",
      why: "GET /weather wins by its path and has no DELETE; less specific rules are not asked",
      answer: { status: 405, headers: expect.arrayContaining([["Allow", "GET, HEAD"]]) },
    });
    expect(await explained("GET", "/admin/users")).toMatchObject({
      outcome: "denied",
      rule: { key: "/admin/*" },
      answer: { status: 403 },
      upstream: null,
    });
  });

  test("says why a URL is refused, and with which status", async () => {
    expect(await explained("GET", "https://api.example.com/reports/../admin")).toMatchObject({
      path: null,
      outcome: "refused",
      why: "The path holds a dot segment (. or ..)",
      answer: { status: 400 },
      notes: [expect.stringContaining("browsers and fetch send /admin for this URL")],
    });
    expect(await explained("GET", `/${"a".repeat(5_000)}`)).toMatchObject({
      answer: { status: 414 },
    });
    expect(await explained("GET", "/reports/a%3bb")).toMatchObject({ outcome: "refused" });
    expect(await explained("GET", "/weather", "-H", "Host: a b")).toMatchObject({
      outcome: "refused",
      why: "Host is not the name of a host",
    });
  });

  test("names the rule for which a close path is refused", async () => {
    const open = await stage.write(
      "open.yaml",
      `publicUrl: https://api.example.com\n${RULES.replace("GET /health: free", "/*: free")}`,
    );
    const { stdout } = await runHere(["routes", open, "GET", "/Weather", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      outcome: "refused",
      why: "The path is close to another one that has a price; write it exactly: some backends would serve GET /weather",
      answer: { status: 400 },
      beaten: [{ key: "/*" }],
    });
  });

  test("tells a preflight from an OPTIONS request", async () => {
    expect(await explained("GET", "/weather", "--preflight")).toMatchObject({
      method: "OPTIONS",
      outcome: "preflight",
      rule: { key: "GET /weather" },
      answer: {
        status: 204,
        headers: expect.arrayContaining([
          ["Access-Control-Allow-Methods", "GET"],
          [
            "Access-Control-Allow-Headers",
            "X-PAYMENT, PAYMENT-SIGNATURE, SIGN-IN-WITH-X, Access-Control-Expose-Headers, Content-Type, x-payment, access-control-expose-headers",
          ],
        ]),
        body: null,
      },
    });
    expect(await explained("OPTIONS", "/weather")).toMatchObject({
      outcome: "method-not-allowed",
      notes: [expect.stringContaining("no preflight")],
    });
    expect((await runHere(["routes", file, "OPTIONS", "/weather", "--preflight"])).code).toBe(2);
  });

  test("says what only a running gateway knows", async () => {
    const remote = await stage.write("remote.yaml", onSolana("http://127.0.0.1:1"));
    const { stdout } = await runHere(["routes", remote, "GET", "/weather", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      answer: {
        status: 402,
        body: { accepts: [{ extra: { feePayer: "<told by the running gateway>" } }] },
      },
      notes: [expect.stringContaining("told by the facilitator")],
    });

    const networks = `{ solana-devnet: { rpc: ["http://127.0.0.1:1"], signers: [env:SOLANA_KEY] } }`;
    const own = await stage.write("own.yaml", onSolana(`{ embedded: { networks: ${networks} } }`));
    const known = await runHere(["routes", own, "GET", "/weather", "--json"], SOLANA_ENV);
    expect(JSON.parse(known.stdout)).toMatchObject({
      answer: { body: { accepts: [{ extra: { feePayer: testKey(1).address } }] } },
      notes: [],
    });
  });

  test("is a page for people, with the answer as it is sent", async () => {
    const page = await routes("GET", "/weather?city=Oslo");
    expect(page).toContain(`GET /weather?city=Oslo
  path      /weather
  query     city=Oslo
  outcome   priced
  why       the only rule that matches
  rule      GET /weather  (${file}:16)
  price     0.01 USDC on base-sepolia to ${PAYEE}
  price     0.0093 EURC on avalanche to ${PAYEE}
  upstream  once paid, default: http://127.0.0.1:1
  sent      /weather?city=Oslo

HTTP 402 Payment Required
`);
    expect(page).toContain('"resource": "https://api.example.com/weather?city=Oslo"');
    expect(page).not.toContain("\u001b");
  });
});

describe("the command line", () => {
  test("is wrong without a URL, with a header that is none, and with a file that is refused", async () => {
    expect((await runHere(["routes", file, "GET"])).code).toBe(2);
    expect((await runHere(["routes", file, "GET", "weather"])).code).toBe(2);
    expect((await runHere(["routes", file, "GET", "/weather", "-H", "nonsense"])).code).toBe(2);
    expect((await runHere(["routes", `${file}.none`])).code).toBe(1);
    const { stdout } = await runHere(["routes", "--help"]);
    expect(stdout).toContain("Exit codes: 0 done, 1 the file is refused or has no routes");
  });
});

/** A header without what is another in each challenge to sign in. */
function sameEachTime(value: string): string {
  if (!/^[A-Za-z0-9+/]{200,}=*$/.test(value)) return value;
  const text = Buffer.from(value, "base64").toString();
  return text.replaceAll(/"(nonce|issuedAt|expirationTime)":"[^"]+"/g, '"$1":""');
}

describe("a running gateway", () => {
  let site: Site;
  let idle: ScriptedFacilitator;
  let served: Served;

  beforeAll(async () => {
    site = await Site.create();
    idle = await startIdleFacilitator();
    served = await site.serve(
      RULES.replace("http://127.0.0.1:1\nunmatched", `${idle.url}\nunmatched`),
      {},
    );
    await served.untilReady(200);
    file = `${site.folder}/gateway.yaml`;
  });

  afterAll(async () => {
    await site[Symbol.asyncDispose]();
    await idle[Symbol.asyncDispose]();
  });

  const send = async (
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<{ status: number; lines: Map<string, string>; body: string }> => {
    const { hostname, port } = new URL(served.url);
    const outgoing = request({ hostname, port, method, path, headers, agent: false }).end();
    const [response] = (await once(outgoing, "response")) as [IncomingMessage];
    let body = "";
    for await (const part of response.setEncoding("utf8")) body += String(part);
    const raw = response.rawHeaders;
    const lines = new Map(
      raw.flatMap((name, at) => (at % 2 === 0 ? [[name, raw[at + 1] ?? ""]] : [])),
    );
    return { status: response.statusCode ?? 0, lines, body };
  };

  test.each([
    ["GET", "/weather?city=Oslo", {}],
    ["GET", "/weather", { Origin: "https://shop.example" }],
    ["HEAD", "/weather", {}],
    ["POST", "/reports/latest", {}],
    ["GET", "/reports/%C3%A4", {}],
    [
      "OPTIONS",
      "/weather",
      { Origin: "https://a.example", "Access-Control-Request-Method": "GET" },
    ],
    ["OPTIONS", "/weather", {}],
    ["GET", "/weather", { "X-PAYMENT": "nonsense" }],
    ["DELETE", "/weather", {}],
    ["GET", "/admin/x", {}],
    ["GET", "/nothing", {}],
    ["GET", "/Weather", {}],
    ["GET", "/a//b", {}],
    ["GET", "/reports/..", {}],
    ["OPTIONS", "*", {}],
  ] as const)("answers %s %s %j as the explanation says", async (method, path, headers) => {
    const words = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
    const { answer } = await explained(method, path, ...words);
    const { status, lines, body } = await send(method, path, headers);

    expect(answer.status).toBe(status);
    for (const [name, value] of answer.headers) {
      expect(sameEachTime(lines.get(name) ?? ""), name).toBe(sameEachTime(value));
    }
    const sent = method === "HEAD" || answer.body === null ? "" : JSON.stringify(answer.body);
    expect(sent).toBe(body);
  });
});

describe("a price that each request has of its own", () => {
  const OWN = `publicUrl: https://api.example.com
upstream: http://127.0.0.1:1
payTo: "${PAYEE}"
accept: [{ network: base-sepolia, testnet: true }]
facilitator: http://127.0.0.1:1
unmatched: deny
logging: { level: fatal }
routes:
  POST /generate:
    price: { by: 'usd("0.001") + 20 * size(body.prompt)', from: $0.001, to: $0.05 }
    description: Generated
  GET /many: { price: { by: "1000 * int(query.n)", from: $0.001, to: $0.05 }, description: Many }
`;
  let own: string;
  let body: string;

  beforeAll(async () => {
    own = await stage.write("computed.yaml", OWN);
    body = await stage.write("request.json", '{"prompt":"hello"}');
  });

  async function ask(...words: readonly string[]) {
    const { code, stdout, stderr } = await runHere(["routes", own, ...words]);
    return { code, stderr, said: stdout };
  }

  test("is told as a range, and of a request as what it costs, and by what", async () => {
    expect((await ask()).said).toMatch(/POST +\/generate +0\.001 to 0\.05 USDC on base-sepolia/);
    const { code, said } = await ask("POST", "/generate", "--body", body);
    expect(code).toBe(0);
    expect(said).toContain("computed  $0.0011\n");
    expect(said).toContain('by        usd("0.001") + 20 * size(body.prompt)\n');
    expect(said).toContain('"maxAmountRequired": "1100"');
    const json = JSON.parse((await ask("GET", "/many?n=7", "--json")).said);
    expect(json).toMatchObject({
      price: { dollars: "$0.007", why: null },
      rule: { computed: "1000 * int(query.n)", prices: [{ amount: "0.05", least: "0.001" }] },
    });
  });

  test("is the most of it without a body, and none where it cannot be had", async () => {
    expect((await ask("POST", "/generate")).said).toContain(
      "computed  $0.05: the most that it may cost: that depends on the body, which was not sent\n",
    );
    const { said } = await ask("GET", "/many?n=70");
    expect(said).toContain(
      "computed  no price: it comes to more than $0.05, the most that is sold",
    );
    expect(said).toContain("HTTP 400 Bad Request\n");
  });

  test("wants a request for its body, and a file that is there", async () => {
    expect((await ask("--body", body)).code).toBe(2);
    const { code, stderr } = await ask("POST", "/generate", "--body", `${body}.not`);
    expect([code, stderr]).toEqual([1, `${body}.not: cannot be read\n`]);
  });
});
