/**
 * Checks in exactly the form in which Envoy (ext_authz, HTTP service) and Traefik (forwardAuth) send them by their
 * documentation, since neither can be installed here; and whatever of a check is refused, whoever asks.
 */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request, type IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { start } from "../../../src/app.ts";
import { openPauses } from "../../../src/app/pauses.ts";
import { formatProblems, parseConfig, type Config } from "../../../src/config/config.ts";
import { SIGN_IN_WITH_X } from "@x402/extensions/sign-in-with-x";
import { PAYMENT_HEADERS, RECEIPT_HEADERS } from "../../../src/x402/header.ts";
import { SIGN_IN_HEADER } from "../../../src/x402/sign-in.ts";
import { X402_VERSION, type X402Version } from "../../../src/x402/x402.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inHeader, PURSE, richBuyer, VERSIONS } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, signPayment } from "../../support/payer.ts";
import { signChallenge } from "../../support/sign-in.ts";
import { PUBLIC_URL, shopYaml } from "./stage.ts";

interface Told {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Lines = Readonly<Record<string, string | readonly string[]>>;

/** One check; a list of values is as many lines. */
async function check(url: string, method: string, lines: Lines, body?: string): Promise<Told> {
  const headers = Object.fromEntries(
    Object.entries(lines).map(([name, value]) => [
      name,
      typeof value === "string" ? value : [...value],
    ]),
  );
  const sent = request(url, { method, headers, agent: false });
  sent.end(body);
  const [response] = await once(sent, "response");
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

const errorOf = ({ body }: Told): string => Object(JSON.parse(body)).error;

let chain: Chain;
/** Of the gateway that was started last. */
let newest: Config;
let sites: AsyncDisposableStack;

beforeAll(async () => {
  chain = await startChain();
  sites = new AsyncDisposableStack();
});

afterAll(async () => {
  await sites.disposeAsync();
  await chain.stop();
});

/** In this process; the address where it is asked. */
async function serve(settings: string, more = ""): Promise<string> {
  const signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  const folder = await mkdtemp(join(tmpdir(), "coinslot-sidecar-"));
  sites.defer(() => rm(folder, { recursive: true, force: true }));
  const head = `
sidecar: { listen: 127.0.0.1:0, ${settings} }
publicUrl: ${PUBLIC_URL}
store: sqlite:${join(folder, "ledger.db")}
`;
  const yaml = shopYaml(chain, freshAccount().address, more).replace("debug", "silent");
  const parsed = parseConfig(head + yaml, {
    file: "test.yaml",
    env: { SIGNER: signer.privateKey },
    readFile: () => {
      throw new Error("the test configuration names no files");
    },
  });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  newest = parsed.config;
  const running = await start(parsed.config, "test");
  sites.defer(() => running.close({ atOnce: true }));
  return `http://127.0.0.1:${running.addresses.gateway[0]?.port ?? 0}`;
}

async function paymentFor(answer: Told, version: X402Version = X402_VERSION) {
  const buyer = await richBuyer(chain);
  const [paymentRequirements] = Object(JSON.parse(answer.body)).accepts;
  const paymentPayload = await signPayment({
    account: buyer.account,
    requirements: paymentRequirements,
  });
  const header = inHeader({ paymentPayload, paymentRequirements }, version);
  return { buyer, header, name: PAYMENT_HEADERS[version] };
}

describe("as Envoy asks: with the client's method, and its path behind /check", () => {
  /** What Envoy sends beside the allowed lines: https://www.envoyproxy.io, ext_authz, HTTP service. */
  const LINES = { Host: "shop.example", "Content-Length": "0", "X-Forwarded-For": "192.0.2.9" };
  let url: string;

  beforeAll(async () => {
    url = await serve("proxy: envoy");
  });

  it("a priced route is 402 with its offers, for any method that has a price", async () => {
    const got = await check(`${url}/check/weather?city=Oslo`, "GET", LINES);
    expect(got.status).toBe(402);
    expect(Object(JSON.parse(got.body)).accepts[0].resource).toBe(
      `${PUBLIC_URL}/weather?city=Oslo`,
    );
    expect((await check(`${url}/check/summarize`, "POST", LINES)).status).toBe(402);
    expect((await check(`${url}/check/weather`, "DELETE", LINES)).status).toBe(405);
    const head = await check(`${url}/check/weather`, "HEAD", LINES);
    expect([head.status, head.body]).toEqual([402, ""]);
  });

  it("nothing that is paused passes, or is asked for, until it is sold again", async () => {
    const { header } = await paymentFor(await check(`${url}/check/weather`, "GET", LINES));
    const shown = { ...LINES, "X-PAYMENT": header };
    const status = async (): Promise<number> => {
      return (await check(`${url}/check/weather`, "GET", LINES)).status;
    };
    const pauses = await openPauses(newest);
    const whoever = { reason: "", by: "a test", sinceMs: 0, untilMs: null };
    await pauses.pause({ scope: "route GET /weather", ...whoever });
    await expect.poll(status, { timeout: 10_000 }).toBe(503);
    const told = await check(`${url}/check/weather`, "GET", shown);
    expect([told.status, told.headers["retry-after"]]).toEqual([503, "60"]);
    expect((await check(`${url}/check/health`, "GET", LINES)).status).toBe(200);
    expect(await pauses.resume()).toBe(1);
    await pauses.close();
    await expect.poll(status, { timeout: 10_000 }).toBe(402);
    expect((await check(`${url}/check/weather`, "GET", shown)).status).toBe(200);
  });

  it.each(VERSIONS)(
    "a free route passes with 200, and one paid in version %i with who paid and the receipt",
    async (version) => {
      const free = await check(`${url}/check/health`, "GET", LINES);
      expect([free.status, free.headers["x-402-pass"], free.body]).toEqual([200, "free", ""]);
      expect(free.headers["x-402-payer"]).toBeUndefined();

      const asked = await check(`${url}/check/weather`, "GET", LINES);
      const { buyer, header, name } = await paymentFor(asked, version);
      const paid = await check(`${url}/check/weather`, "GET", { ...LINES, [name]: header });
      expect([paid.status, paid.headers["x-402-pass"]]).toEqual([200, "paid"]);
      expect(paid.headers["x-402-payer"]).toBe(buyer.address);
      const receipts = VERSIONS.map((each) => paid.headers[RECEIPT_HEADERS[each].toLowerCase()]);
      expect(receipts.map(Boolean)).toEqual(VERSIONS.map((each) => each === version));
      expect(JSON.parse(atob(String(receipts.find(Boolean))))).toMatchObject({ success: true });
      expect(paid.headers["cache-control"]).toBe("private, no-store");
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    },
  );

  it("its own answers may be read by pages of other origins, and name where help is", async () => {
    const own = await serve("proxy: envoy", "cors: true\nsupport: help@shop.example");
    const link = '<mailto:help@shop.example>; rel="help"';
    for (const [path, status] of [
      ["/weather", 402],
      ["/nowhere", 404],
      ["/a/%2e%2e%2fb", 400],
    ] as const) {
      const { status: told, headers } = await check(`${own}/check${path}`, "GET", LINES);
      expect([told, headers["access-control-allow-origin"]]).toEqual([status, "*"]);
      expect(headers["link"]).toBe(status === 402 ? link : undefined);
    }
    const asked = await check(`${own}/check/weather`, "GET", LINES);
    const { header, name } = await paymentFor(asked);
    const paid = await check(`${own}/check/weather`, "GET", { ...LINES, [name]: header });
    expect(paid.status).toBe(200);
    const links = String(paid.headers["link"]).split(", ");
    expect(links).toHaveLength(2);
    expect(links).toContain(link);
    expect(links.join()).toContain('; rel="status"');
  });

  it.each(VERSIONS)(
    "a payment of version %i is passed again to whom it was sold, and to nobody else who found it on the chain",
    async (version) => {
      const asked = await check(`${url}/check/weather`, "GET", LINES);
      const { header, name } = await paymentFor(asked, version);
      const lines = { ...LINES, [name]: header };
      const stranger = { ...lines, "X-Forwarded-For": "192.0.2.10" };
      expect((await check(`${url}/check/weather`, "GET", lines)).status).toBe(200);
      expect((await check(`${url}/check/weather`, "GET", stranger)).status).toBe(402);
      expect((await check(`${url}/check/weather?more`, "GET", lines)).status).toBe(402);
      expect((await check(`${url}/check/weather`, "GET", lines)).status).toBe(200);
    },
  );

  it.each(VERSIONS)("two payments of version %i at once are none", async (version) => {
    const asked = await check(`${url}/check/weather`, "GET", LINES);
    const { header, name } = await paymentFor(asked, version);
    const twice = await check(`${url}/check/weather`, "GET", {
      ...LINES,
      [name]: [header, header],
    });
    expect([twice.status, errorOf(twice)]).toEqual([
      400,
      expect.stringContaining(`more than one ${name}`),
    ]);
    // One line, as proxies join them.
    const joined = { ...LINES, [name]: `${header}, ${header}` };
    expect((await check(`${url}/check/weather`, "GET", joined)).status).toBe(400);
  });

  it("the path is judged as it was written, and the lines of other proxies are the client's own", async () => {
    const spellings = [
      "//weather",
      "/./weather",
      "/%77eather",
      "/health/../weather",
      "/weather;a=b",
    ];
    for (const spelling of spellings) {
      // As bytes: a URL library would repair them.
      const sent = request(url, { path: `/check${spelling}`, headers: { ...LINES }, agent: false });
      sent.end();
      const [response] = await once(sent, "response");
      expect(response.statusCode, spelling).toBe(400);
      response.resume();
    }
    const forged = {
      "X-Original-URI": "/health",
      "X-Original-Method": "GET",
      "X-Forwarded-Uri": "/health",
      "X-Forwarded-Method": "GET",
      "X-Original-URL": "/health",
      "X-402-Pass": "free",
    };
    expect((await check(`${url}/check/weather`, "GET", { ...LINES, ...forged })).status).toBe(402);
    expect((await check(`${url}/check`, "GET", { ...LINES, ...forged })).status).toBe(400);
  });

  it("what would be taken for leave to pass is not said there, but at /answer, where nothing passes", async () => {
    const asked = {
      ...LINES,
      Origin: "https://app.example",
      "Access-Control-Request-Method": "GET",
    };
    expect((await check(`${url}/check/discovery/resources`, "GET", LINES)).status).toBe(403);
    expect((await check(`${url}/check/weather`, "OPTIONS", asked)).status).toBe(403);
    const browser = { ...LINES, Accept: "text/html", "Sec-Fetch-Mode": "navigate" };
    const page = await check(`${url}/check/weather`, "GET", browser);
    expect([page.status, page.headers["content-type"]]).toEqual([402, "text/html; charset=utf-8"]);
    expect(page.body).toMatch(/^<!doctype html>/i);
    const listing = await check(`${url}/answer/discovery/resources`, "GET", LINES);
    expect([listing.status, Object(JSON.parse(listing.body)).items.length]).toEqual([200, 4]);
    expect((await check(`${url}/answer/weather`, "OPTIONS", asked)).status).toBe(204);
    expect((await check(`${url}/answer/weather`, "GET", LINES)).status).toBe(402);
    expect((await check(`${url}/answer/health`, "GET", LINES)).status).toBe(404);
    const { buyer, header } = await paymentFor(await check(`${url}/check/weather`, "GET", LINES));
    expect(
      (await check(`${url}/answer/weather`, "GET", { ...LINES, "X-PAYMENT": header })).status,
    ).toBe(404);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
  });
});

describe("as Traefik asks: GET of its address, and the request in lines", () => {
  const lines = (method: string, uri: string, more: Lines = {}): Lines => ({
    Host: "127.0.0.1:8403",
    "X-Forwarded-Method": method,
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "shop.example",
    "X-Forwarded-Uri": uri,
    "X-Forwarded-For": "192.0.2.9",
    ...more,
  });
  let url: string;

  function ask(chained: string): Promise<Told> {
    return check(`${url}/check`, "GET", lines("GET", "/weather", { "X-Forwarded-For": chained }));
  }

  beforeAll(async () => {
    url = await serve("proxy: traefik", "limits: { unpaidPerIp: 3/m }");
  });

  it("each client has its own limit on what it asks without paying: the last address is its own", async () => {
    const statuses: number[] = [];
    for (let count = 0; count < 5; count += 1) {
      // Whatever it writes before that one.
      statuses.push((await ask(`198.51.100.${count}, 192.0.2.50`)).status);
    }
    expect(statuses).toEqual([402, 402, 402, 429, 429]);
    expect((await ask("192.0.2.51")).status).toBe(402);
  });

  it("priced and free requests are told apart by these lines alone", async () => {
    const free = await check(`${url}/check`, "GET", lines("POST", "/echo"));
    expect([free.status, free.headers["x-402-pass"]]).toEqual([200, "free"]);
    const original = { "X-Original-URI": "/health", "X-Original-Method": "GET" };
    const priced = await check(`${url}/check`, "GET", lines("POST", "/summarize", original));
    expect(priced.status).toBe(402);
    expect(Object(JSON.parse(priced.body)).accepts[0].resource).toBe(`${PUBLIC_URL}/summarize`);
    const rest = await check(`${url}/check/health`, "GET", lines("GET", "/weather"));
    expect(rest.status).toBe(400);
  });

  it.each<[why: string, more: Lines, says: string]>([
    ["twice a URI", { "X-Forwarded-Uri": ["/health", "/weather"] }, "there 2 times"],
    ["twice a method", { "X-Forwarded-Method": ["GET", "POST"] }, "there 2 times"],
    ["no URI", { "X-Forwarded-Uri": [] }, "is missing"],
    ["no method", { "X-Forwarded-Method": [] }, "is missing"],
    ["a method that is none", { "X-Forwarded-Method": "GET /" }, "is none"],
    ["a whole URL", { "X-Forwarded-Uri": "http://shop.example/health" }, "begin with a slash"],
    ["nobody who asks", { "X-Forwarded-For": [] }, "which address asks"],
    ["nobody who can be read", { "X-Forwarded-For": "192.0.2.1, unknown" }, "which address asks"],
  ])("%s is refused, whatever the route", async (_, more, says) => {
    const got = await check(`${url}/check`, "GET", lines("GET", "/health", more));
    expect([got.status, errorOf(got)]).toEqual([400, expect.stringContaining(says)]);
  });

  it("a check with a body is refused, and so is anything else", async () => {
    const body = await check(`${url}/check`, "POST", lines("POST", "/echo"), "text");
    expect([body.status, errorOf(body)]).toEqual([400, expect.stringContaining("has a body")]);
    expect((await check(`${url}/health`, "GET", lines("GET", "/health"))).status).toBe(400);
    expect(
      (await check(`${url}/report`, "POST", { "X-402-Report": "0", "X-402-Status": "200" })).status,
    ).toBe(404);
    expect((await check(`${url}/held`, "GET", { "X-402-Answer": "0" })).status).toBe(500);
  });
});

/** What Node's client sends of names that HTTP allows. */
const ODD_NAMES = Array.from("!#$%&'*+.^_`|~", (odd) => `X${odd}402${odd}Payer`);

describe("names that some backends read as others", () => {
  it.each([
    ["envoy", "/check/health", {}],
    ["traefik", "/check", { "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/health" }],
    ["haproxy", "/check", { "X-Original-Method": "GET", "X-Original-URI": "/health" }],
  ])("are refused, since %s would pass them on", async (proxy, path, lines) => {
    const url = (await serve(`proxy: ${proxy}`)) + path;
    const asked = { "X-Forwarded-For": "192.0.2.9", ...lines };
    expect((await check(url, "GET", asked)).headers["x-402-pass"]).toBe("free");
    for (const name of ODD_NAMES) {
      const got = await check(url, "GET", { ...asked, [name]: "0xdead" });
      expect([name, got.status, errorOf(got)]).toEqual([
        name,
        400,
        expect.stringContaining("letters, digits and dashes"),
      ]);
      expect(got.headers["x-402-pass"]).toBeUndefined();
    }
  });

  it("are refused in the second step where the proxy knows 401 only", async () => {
    const url = await serve("proxy: nginx");
    const got = await check(`${url}/check`, "GET", {
      "X-Forwarded-For": "192.0.2.9",
      "X-Original-Method": "GET",
      "X-Original-URI": "/health",
      "X.402.Payer": "0xdead",
    });
    expect(got.status).toBe(401);
    const id = String(got.headers["x-402-answer"]);
    expect((await check(`${url}/held`, "GET", { "X-402-Answer": id })).status).toBe(400);
  });
});

describe("whoever is not the proxy", () => {
  it("is refused", async () => {
    const url = await serve("proxy: envoy, peers: [192.0.2.1]");
    const got = await check(`${url}/check/health`, "GET", { "X-Forwarded-For": "192.0.2.9" });
    expect([got.status, got.headers["x-402-pass"]]).toEqual([403, undefined]);
  });
});

describe("reports", () => {
  it("count once, with a status; without one in time the payment is delivered", async () => {
    const url = await serve("proxy: nginx, delivery: reported, reportWithin: 1s");
    const ask = (more: Lines = {}) =>
      check(`${url}/check`, "GET", {
        "X-Original-Method": "GET",
        "X-Original-URI": "/weather",
        "X-Forwarded-For": "192.0.2.9",
        ...more,
      });
    const refusal = await ask();
    const held = (id: unknown) => check(`${url}/held`, "GET", { "X-402-Answer": String(id) });
    expect(refusal.status).toBe(401);
    const question = await held(refusal.headers["x-402-answer"]);
    expect(question.status).toBe(402);
    expect((await held(refusal.headers["x-402-answer"])).status).toBe(500);

    const report = async (id: unknown, status: string) => {
      const lines = { "X-402-Report": String(id), "X-402-Status": status };
      return (await check(`${url}/report`, "POST", lines)).status;
    };
    const { header } = await paymentFor(question);
    const first = await ask({ "X-PAYMENT": header });
    const id = first.headers["x-402-report"];
    expect(await report(id, "goods")).toBe(400);
    expect(await report(id, "502")).toBe(204);
    expect(await report(id, "502")).toBe(404);
    const second = await ask({ "X-PAYMENT": header });
    expect(second.status).toBe(200);
    // Nobody reports. Whoever asks meanwhile waits, and is too late then.
    const third = await ask({ "X-PAYMENT": header });
    expect(third.status).toBe(401);
    const told = await held(third.headers["x-402-answer"]);
    expect([told.status, errorOf(told)]).toEqual([
      402,
      expect.stringMatching(/^invalid_transaction_state/),
    ]);
  });
});

describe("who signs in", () => {
  it("is let pass where he asks, and has used nothing where nothing passes", async () => {
    const url = await serve("proxy: envoy");
    const lines = { Host: "shop.example", "X-Forwarded-For": "192.0.2.9" };
    const asked = await check(`${url}/check/weather`, "GET", lines);
    const { buyer, header, name } = await paymentFor(asked);
    const bought = await check(`${url}/check/weather`, "GET", { ...lines, [name]: header });
    expect(bought.status).toBe(200);
    const quote = JSON.parse(atob(String(asked.headers["payment-required"])));
    const signed = await signChallenge(quote.extensions[SIGN_IN_WITH_X], buyer.account);
    // From wherever he is.
    const shown = { ...lines, "X-Forwarded-For": "192.0.2.10", [SIGN_IN_HEADER]: signed };
    const answered = await check(`${url}/answer/weather`, "GET", shown);
    expect([answered.status, errorOf(answered)]).toEqual([404, "nothing is sold here"]);
    const passed = await check(`${url}/check/weather`, "GET", shown);
    expect([passed.status, passed.headers["x-402-payer"]]).toEqual([200, buyer.address]);
    expect((await check(`${url}/check/weather`, "GET", shown)).status).toBe(402);
  });
});
