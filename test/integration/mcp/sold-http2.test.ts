/** Tools that are sold over HTTP/2: many messages of one connection, and streams that are reset, as over HTTP/1.1. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, constants, type ClientHttp2Session } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { PURSE, richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { FIRST } from "../../support/listener-tls.ts";
import { McpStage } from "../../support/mcp/stage.ts";
import { payFor, PAYMENT } from "../../support/tool-clients.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let stage: McpStage;
let gateway: RunningGateway;
let files: Readonly<Record<string, string>>;
let listen: string;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const folder = await mkdtemp(join(tmpdir(), "coinslot-sold-http2-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const [cert, key] = [join(folder, "tls.crt"), join(folder, "tls.key")];
  await writeFile(cert, FIRST.cert);
  await writeFile(key, FIRST.key);
  files = { "tls.crt": FIRST.cert, "tls.key": FIRST.key };
  listen = `{ address: "127.0.0.1:0", tls: { cert: ${cert}, key: ${key} } }`;
  stage = closing.use(await McpStage.open());
  const routes = `
  /mcp: { tools: { quote: $0.01, hold: $0.02, fail: $0.01, echo: free, "*": deny } }
`;
  const setup = { chain, routes, files, listen, upstreamUrl: stage.origin };
  gateway = closing.use(await startGateway(setup));
});

afterAll(() => closing.disposeAsync());

interface Told {
  readonly status: number;
  readonly text: string;
  readonly session: string;
}

class Agent {
  readonly #connection: ClientHttp2Session;
  readonly #path: string;
  session = "";

  constructor(to = gateway, path = "/mcp") {
    this.#path = path;
    const port = to.running.addresses.gateway[0]?.port ?? 0;
    this.#connection = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
    this.#connection.on("error", () => undefined);
    onTestFinished(() => this.#connection.destroy());
  }

  /** With `leaving` the stream is reset as soon as that is so. */
  async post(told: object, leaving?: Promise<void>): Promise<Told> {
    const stream = this.#connection.request({
      ":method": "POST",
      ":path": this.#path,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "content-length": Buffer.byteLength(bodyOf(told)),
      ...(this.session !== "" && { "mcp-session-id": this.session }),
    });
    stream.on("error", () => undefined);
    const answered = new Promise<Told>((resolve) => {
      let [status, text, session] = [0, "", ""];
      stream.on("response", (head) => {
        status = Number(head[":status"]);
        session = String(head["mcp-session-id"] ?? "");
      });
      stream.setEncoding("utf8").on("data", (part: string) => (text += part));
      stream.once("close", () => resolve({ status, text, session }));
    });
    stream.end(bodyOf(told));
    void leaving?.then(() => stream.close(constants.NGHTTP2_CANCEL));
    return answered;
  }

  async begin(): Promise<void> {
    const clientInfo = { name: "agent", version: "1" };
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
    this.session = (await this.post({ id: 0, method: "initialize", params })).session;
    await this.post({ method: "notifications/initialized" });
  }

  async call(name: string, more: object = {}, leaving?: Promise<void>) {
    const given = name === "quote" ? { ticker: "A" } : name === "echo" ? { text: "hi" } : {};
    const params = { name, arguments: given, ...more };
    const { text, status } = await this.post({ id: 7, method: "tools/call", params }, leaving);
    const data = /^data: (\{.*)$/m.exec(text)?.[1] ?? text;
    return { status, told: data === "" ? null : JSON.parse(data) };
  }
}

const bodyOf = (told: object): string => JSON.stringify({ jsonrpc: "2.0", ...told });
const paying = (payment: object) => ({ _meta: { [PAYMENT]: payment } });

test("what is free, priced and denied is so, and a payment buys one call of one session", async () => {
  const agent = new Agent();
  await agent.begin();
  const account = await richBuyer(chain);
  // All at once: of each the id is the same.
  const [echo, quote, deny, fail] = await Promise.all(
    ["echo", "quote", "big", "fail"].map((name) => agent.call(name)),
  );
  expect(echo?.told.result.content[0].text).toBe("hi");
  expect(deny?.told.error.code).toBe(-32_602);
  const payment = await payFor(account, quote?.told.result.structuredContent);
  const [bought, again] = await Promise.all([
    agent.call("quote", paying(payment)),
    agent.call("quote", paying(payment)),
  ]);
  const sold = [bought, again].filter(({ told }) => told.result.isError !== true);
  expect(sold.length).toBeGreaterThan(0);
  for (const { told } of sold) {
    expect(told).toMatchObject({ id: 7, result: { content: [{ text: "A: 42" }] } });
  }
  expect(stage.workshop.count("quote")).toBe(1);
  expect(await chain.balanceOf(account.address)).toBe(PURSE - 10_000n);
  const thief = new Agent();
  await thief.begin();
  expect((await thief.call("quote", paying(payment))).told.result.isError).toBe(true);
  const failed = await payFor(account, fail?.told.result.structuredContent);
  expect((await agent.call("fail", paying(failed))).told.result.isError).toBe(true);
});

test("a stream that is reset leaves its payment for that call", async () => {
  const agent = new Agent();
  await agent.begin();
  const account = await richBuyer(chain);
  const payment = await payFor(account, (await agent.call("hold")).told.result.structuredContent);
  const begun = stage.workshop.until(() => stage.workshop.count("hold") === 1);
  await agent.call("hold", paying(payment), begun);
  stage.workshop.release();
  const { told } = await agent.call("quote", paying(payment));
  expect(told.result).toMatchObject({ isError: true });
  // Its answer was kept for him.
  const had = async () => (await agent.call("hold", paying(payment))).told.result?.isError;
  await expect.poll(had, { timeout: 20_000 }).toBeUndefined();
  expect(stage.workshop.count("hold")).toBe(1);
  expect(await chain.balanceOf(account.address)).toBe(PURSE - 20_000n);
});

test("routes are tools over it, whichever process is asked, for one payment each", async () => {
  const routes = "{ GET /a: { price: $0.01, description: A } }";
  const more = "mcp: { path: /own }\nworkers: 2";
  await using own = await startGateway({ chain, routes, files, listen, more });
  const agents = Array.from({ length: 4 }, () => new Agent(own, "/own"));
  const [agent] = agents;
  if (agent === undefined) throw new Error("there is one");
  const asked = (await agent.call("get_a")).told.result.structuredContent;
  const account = await richBuyer(chain);
  const payment = await payFor(account, asked);
  // A payment that is shown everywhere at once buys once; who comes too early is told to come again.
  const told = await Promise.all(agents.map((each) => each.call("get_a", paying(payment))));
  const had = told.filter((each) => each.told.result.isError !== true);
  expect(had.length).toBeGreaterThan(0);
  expect(had[0]?.told.result._meta["x402/payment-response"]).toMatchObject({ success: true });
  expect(own.upstream.length).toBe(1);
  // Who leaves at once has it with the same payment.
  const left = await payFor(account, asked);
  await agent.call("get_a", paying(left), Promise.resolve());
  for (const each of agents) {
    const again = async () => (await each.call("get_a", paying(left))).told.result.isError;
    await expect.poll(again, { timeout: 20_000 }).not.toBe(true);
  }
  expect(own.upstream.length).toBe(2);
  expect(await chain.balanceOf(account.address)).toBe(PURSE - 20_000n);
  // A price that was asked for is good for a while when the file has another one, as over HTTP.
  expect(await own.reroute("{ GET /a: { price: $0.03, description: A } }", more)).toBe(true);
  const late = new Agent(own, "/own");
  const dearer = (await late.call("get_a")).told.result.structuredContent;
  expect(dearer.accepts[0].amount).toBe("30000");
  const before = await late.call("get_a", paying(await payFor(account, asked)));
  expect(before.told.result.isError).toBeUndefined();
  expect(await chain.balanceOf(account.address)).toBe(PURSE - 30_000n);
});
