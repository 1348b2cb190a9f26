/** Listed routes as tools of an MCP server, before both official clients and a chain with the real token. */
import { randomUUID } from "node:crypto";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import {
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
} from "@x402/extensions/bazaar";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { MAX_HELD_BYTES } from "../../src/gateway/held-response.ts";
import { encodeHeaderJson } from "../../src/x402/header.ts";
import { paymentRequiredOf } from "../../src/x402/mcp.ts";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { present, PURSE, quote, richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { balanceIn, prepay } from "../support/prepaid.ts";
import { openSessionAt } from "../support/sign-in.ts";
import {
  payFor,
  PAYMENT,
  RECEIPT,
  toolClients,
  type CalledTool,
  type ToolClient,
} from "../support/tool-clients.ts";

const closing = new AsyncDisposableStack();
const storePath = join(tmpdir(), `coinslot-tools-${randomUUID()}`, "ledger.db");
const saver = freshAccount();
let chain: Chain;
let gateway: RunningGateway;
/** The backend has its day off. */
let isBroken = false;

const ROUTES = `
  GET /weather:
    price: $0.01
    description: Current weather
    mimeType: application/json
    input: { queryParams: { city: { type: string, required: true, description: Where } } }
  GET /reports/:id: { price: $0.25, description: A report, mimeType: application/json }
  GET /reports/secret: { price: $0.01, discoverable: false }
  GET /reports/denied: deny
  POST /summarize:
    price: $0.02
    description: A summary
    input: { bodyType: json, bodyFields: { text: { type: string, required: true } } }
    outputSchema: { type: object, properties: { method: { type: string } }, required: [method] }
  GET /odd: { price: $0.01, outputSchema: { type: object, properties: { method: { type: number } } } }
  GET /files/*: { price: $0.01, description: A file }
  GET /saved: { price: $0.01, credits: true }
  GET /later: { price: $0.01, settle: after }
  GET /members: { price: $0.01, prices: { friends: $0.001 } }
  GET /page: { price: $0.01, mimeType: text/html }
  POST /upload: { price: $0.01, input: { bodyType: binary } }
  GET /health: free
`;

const TYPES: Readonly<Record<string, readonly [type: string, body: string | Buffer]>> = {
  "/files/picture.png": ["image/png", Buffer.from([1, 2, 3])],
  "/files/sound.mp3": ["audio/mpeg", Buffer.from([4, 5])],
  "/files/archive.zip": ["application/zip", Buffer.from([6])],
  "/files/plain.txt": ["text/plain; charset=latin1", Buffer.from("caf\u00e9", "latin1")],
  "/files/empty": ["text/plain", ""],
  "/files/large.bin": ["application/octet-stream", Buffer.alloc(MAX_HELD_BYTES + 1, 7)],
  "/files/events": ["text/event-stream", "data: 1\n\n"],
};

const backend: RequestListener = (request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    const { method, url = "" } = request;
    const known = TYPES[url];
    if (isBroken) response.writeHead(500, { "Content-Type": "text/plain" }).end("out of order");
    else if (url === "/files/none") {
      response.writeHead(404, { "Content-Type": "application/json" }).end('{"error":"none"}');
    } else if (url === "/files/packed") {
      const head = { "Content-Type": "text/plain", "Content-Encoding": "gzip" };
      response.writeHead(200, head).end(gzipSync("unpacked"));
    } else if (known !== undefined) {
      const [type, body] = known;
      response.writeHead(200, { "Content-Type": type, "Content-Length": body.length }).end(body);
    } else {
      const body = JSON.stringify({ method, url, body: Buffer.concat(parts).toString() });
      response.writeHead(200, { "Content-Type": "application/json" }).end(body);
    }
  });
};

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  await prepay(storePath, { [saver.address]: 15_000n });
  const more = `mcp: { path: /mcp }\ndiscovery: { wellKnown: true, llms: true }\ncredits: { packs: [$1] }\nmembers: { friends: "${saver.address}" }`;
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more, backend, storePath }));
});

afterAll(() => closing.disposeAsync());

const connect = async (
  kind: (typeof toolClients)[string] | undefined,
  headers = {},
): Promise<ToolClient> => {
  if (kind === undefined) throw new Error("there is no such client");
  const client = await kind(`${gateway.url}/mcp`, headers);
  closing.defer(() => client.close());
  return client;
};

const newest = "@modelcontextprotocol/client 2.4.0";

const charged = async ({ address }: Pick<FreshAccount, "address">): Promise<bigint> =>
  PURSE - (await chain.balanceOf(address));

const textOf = ({ content: [first] }: CalledTool): string => first?.text ?? "";

/** Asks what a call costs, and calls it with that paid. */
async function buy(
  client: ToolClient,
  buyer: FreshAccount,
  name: string,
  given: Readonly<Record<string, unknown>> = {},
): Promise<{ readonly payment: unknown; readonly bought: CalledTool }> {
  const { structured } = await client.call(name, given);
  const payment = await payFor(buyer, structured);
  return { payment, bought: await client.call(name, given, { [PAYMENT]: payment }) };
}

describe.each(Object.entries(toolClients))("%s", (name, kind) => {
  it("lists a tool for each listed route, and none of the others", async () => {
    const client = await connect(kind);
    const tools = await client.list();
    expect(tools.map((each) => each["name"])).toEqual([
      "get_weather",
      "get_reports_id",
      "post_summarize",
      "get_odd",
      "get_files",
      "get_saved",
      "get_later",
      "get_members",
      "post_x402_credits_1",
    ]);
    expect(tools[0]).toMatchObject({
      description: "Current weather. Price: $0.01 a call, paid by x402.",
      inputSchema: {
        type: "object",
        properties: { city: { type: "string", description: "Where" } },
        required: ["city"],
        additionalProperties: false,
      },
      annotations: { readOnlyHint: true },
      _meta: { "x402/price": { price: "$0.01", method: "GET", resource: `${PUBLIC_URL}/weather` } },
    });
  });

  it("buys a call by what it is asked for, and has its receipt", async () => {
    const client = await connect(kind);
    const buyer = await richBuyer(chain);
    const asked = await client.call("get_weather", { city: "Ghent" });
    expect(asked.isError).toBe(true);
    expect(asked.structured).toMatchObject({
      x402Version: 2,
      error: '_meta["x402/payment"] is required',
      resource: { url: `${PUBLIC_URL}/mcp` },
      extensions: { bazaar: { info: { input: { type: "mcp", toolName: "get_weather" } } } },
    });
    const { isError, content } = asked;
    expect(paymentRequiredOf({ isError, content })).toEqual(asked.structured);
    const payment = await payFor(buyer, asked.structured);
    const bought = await client.call("get_weather", { city: "Ghent" }, { [PAYMENT]: payment });
    const receipt = { success: true, network: "eip155:84532", payer: buyer.address };
    expect(bought).toMatchObject({ isError: false, meta: { [RECEIPT]: receipt } });
    expect(JSON.parse(textOf(bought))).toMatchObject({ url: "/weather?city=Ghent" });
    expect(await charged(buyer)).toBe(10_000n);
    const { transaction } = Object(bought.meta[RECEIPT]);
    expect(gateway.upstream.at(-1)?.headers).toMatchObject({
      "x-402-payer": buyer.address,
      "x-402-transaction": transaction,
    });
    expect(gateway.upstream.at(-1)?.headers).not.toHaveProperty("mcp-protocol-version");
  });

  it("pays in version 1 as well", async () => {
    const client = await connect(kind);
    const buyer = await richBuyer(chain);
    const accepts = [await quote(`${gateway.url}/weather?city=Ghent`)];
    const payment = await payFor(buyer, { x402Version: 1, accepts });
    expect(payment["x402Version"]).toBe(1);
    const bought = await client.call("get_weather", { city: "Ghent" }, { [PAYMENT]: payment });
    const receipt = { success: true, network: "base-sepolia", payer: buyer.address };
    expect(bought).toMatchObject({ isError: false, meta: { [RECEIPT]: receipt } });
    expect(await charged(buyer)).toBe(10_000n);
  });

  it("gets the same answer for the same payment, and nothing else for it", async () => {
    const client = await connect(kind);
    const buyer = await richBuyer(chain);
    const { payment, bought } = await buy(client, buyer, "post_summarize", { text: name });
    expect(bought.structured).toMatchObject({ method: "POST", body: `{"text":"${name}"}` });
    const before = gateway.upstream.length;
    const paid = { [PAYMENT]: payment };
    const again = await client.call("post_summarize", { text: name }, paid);
    expect(again.structured).toEqual(bought.structured);
    expect(again.meta[RECEIPT]).toMatchObject({ success: true });
    const others = [
      await client.call("post_summarize", { text: "another" }, paid),
      await client.call("get_weather", { city: "Ghent" }, paid),
      await client.call("get_reports_id", { id: "1" }, paid),
    ];
    for (const other of others) {
      expect(other).toMatchObject({ isError: true, structured: { x402Version: 2 } });
      expect(Object(other.structured).error).not.toBe("");
    }
    expect(gateway.upstream.length).toBe(before);
    expect(await charged(buyer)).toBe(20_000n);
  });

  it("is owed what was paid and failed, by the same call with the same payment", async () => {
    const client = await connect(kind);
    const buyer = await richBuyer(chain);
    isBroken = true;
    const { payment, bought } = await buy(client, buyer, "get_reports_id", { id: "9" });
    isBroken = false;
    expect(bought).toMatchObject({ isError: true, meta: { [RECEIPT]: { success: true } } });
    expect(textOf(bought)).toBe("out of order");
    const again = await client.call("get_reports_id", { id: "9" }, { [PAYMENT]: payment });
    expect(again.isError).toBe(false);
    expect(JSON.parse(textOf(again))).toMatchObject({ url: "/reports/9" });
    expect(await charged(buyer)).toBe(250_000n);
  });

  it("has the answer as text, a picture, a sound or a file", async () => {
    const client = await connect(kind);
    const buyer = await richBuyer(chain);
    const of = async (rest: string): Promise<CalledTool> =>
      (await buy(client, buyer, "get_files", { rest })).bought;
    expect((await of("picture.png")).content).toEqual([
      { type: "image", data: "AQID", mimeType: "image/png" },
    ]);
    expect((await of("sound.mp3")).content).toEqual([
      { type: "audio", data: "BAU=", mimeType: "audio/mpeg" },
    ]);
    const uri = `${PUBLIC_URL}/files/archive.zip`;
    expect((await of("archive.zip")).content).toEqual([
      { type: "resource", resource: { uri, mimeType: "application/zip", blob: "Bg==" } },
    ]);
    expect(textOf(await of("plain.txt"))).toBe("caf\u00e9");
    expect(textOf(await of("packed"))).toBe("unpacked");
    expect((await of("empty")).content).toEqual([]);
    expect(await of("none")).toMatchObject({
      isError: true,
      content: [{ text: '{"error":"none"}' }],
    });
  });

  it("has an answer that is not as it was declared, and sees that it is none", async () => {
    const client = await connect(kind);
    const { bought } = await buy(client, await richBuyer(chain), "get_odd");
    expect(bought).toMatchObject({ isError: true, meta: { [RECEIPT]: { success: true } } });
    expect(textOf(bought)).toContain('"method":"GET"');
  });
});

it("is the same sale over HTTP", async () => {
  const client = await connect(toolClients[newest]);
  const buyer = await richBuyer(chain);
  const { payment, bought } = await buy(client, buyer, "get_weather", { city: "Bruges" });
  const before = gateway.upstream.length;
  const { extensions: _, ...silent } = Object(payment);
  const url = `${gateway.url}/weather?city=Bruges`;
  const over = await present(url, encodeHeaderJson(silent), {}, 2);
  expect(over.status).toBe(200);
  expect(over.text).toBe(textOf(bought));
  expect(gateway.upstream.length).toBe(before);
  expect(await charged(buyer)).toBe(10_000n);
});

it.each(["large.bin", "events"])(
  "sends %s by HTTP, which no result holds, for the same payment",
  async (rest) => {
    const client = await connect(toolClients[newest]);
    const buyer = await richBuyer(chain);
    const { payment, bought } = await buy(client, buyer, "get_files", { rest });
    expect(bought).toMatchObject({ isError: true, meta: { [RECEIPT]: { success: true } } });
    expect(bought.content.at(-1)?.text).toContain(`GET ${PUBLIC_URL}/files/${rest}`);
    const { extensions: _, ...silent } = Object(payment);
    const over = await present(`${gateway.url}/files/${rest}`, encodeHeaderJson(silent), {}, 2);
    expect(over.status).toBe(200);
    expect(await charged(buyer)).toBe(10_000n);
  },
);

it("charges for work that is paid afterwards only where that was good", async () => {
  const client = await connect(toolClients[newest]);
  const buyer = await richBuyer(chain);
  isBroken = true;
  const { bought } = await buy(client, buyer, "get_later");
  isBroken = false;
  expect(bought).toMatchObject({ isError: true, content: [{ text: "out of order" }] });
  expect(await charged(buyer)).toBe(0n);
  expect((await buy(client, buyer, "get_later")).bought.isError).toBe(false);
  expect(await charged(buyer)).toBe(10_000n);
});

it("spends a balance by the session of the connection, and tells members their price", async () => {
  const session = await openSessionAt(gateway.url, saver);
  const client = await connect(toolClients[newest], { [SESSION_HEADER]: session });
  const spent = await client.call("get_saved");
  expect(spent.isError).toBe(false);
  await expect.poll(() => balanceIn(storePath, saver.address)).toBe(5_000n);
  const { structured } = await client.call("get_members");
  expect(Object(structured).accepts[0].amount).toBe("1000");
  const stranger = await connect(toolClients[newest]);
  expect(await stranger.call("get_saved")).toMatchObject({
    isError: true,
    structured: { x402Version: 2 },
  });
});

test("tools are listed for whoever asks for tools, and told where else programs look", async () => {
  const read = async (path: string) => Object(await (await fetch(gateway.url + path)).json());
  const { items, pagination } = await read("/v2/discovery/resources?type=mcp&limit=2");
  expect(pagination).toMatchObject({ limit: 2, total: 9 });
  for (const item of items) {
    const { resource, type, x402Version, extensions, accepts } = item;
    expect({ resource, type, x402Version }).toEqual({
      resource: `${PUBLIC_URL}/mcp`,
      type: "mcp",
      x402Version: 2,
    });
    expect(accepts[0]).toMatchObject({ scheme: "exact", network: "eip155:84532" });
    expect(validateDiscoveryExtension(extensions.bazaar)).toMatchObject({ valid: true });
    expect(validateDiscoveryExtensionSpec(extensions.bazaar)).toMatchObject({ valid: true });
  }
  const client = await connect(toolClients[newest]);
  const { inputSchema } = Object(
    (await client.list()).find((each) => each["name"] === "get_files"),
  );
  expect(items[0].extensions.bazaar.info.input).toMatchObject({
    toolName: "get_files",
    inputSchema,
  });
  const found = await read("/v2/discovery/search?type=mcp&query=weather");
  expect(found.resources[0].extensions.bazaar.info.input.toolName).toBe("get_weather");
  const others = await read("/v2/discovery/resources?limit=100");
  expect(new Set(others.items.map((each: { readonly type: string }) => each.type))).toEqual(
    new Set(["http"]),
  );
  expect((await read("/discovery/resources?type=mcp&limit=1")).items).toEqual([]);
  expect(await read("/.well-known/x402")).toMatchObject({ mcp: `${PUBLIC_URL}/mcp` });
  expect(await (await fetch(`${gateway.url}/llms.txt`)).text()).toContain(
    `[MCP](${PUBLIC_URL}/mcp)`,
  );
});

test("a payment that is none is refused, and says why", async () => {
  const client = await connect(toolClients[newest]);
  for (const payment of [
    "",
    "e30=",
    {},
    [],
    { x402Version: 7 },
    { x402Version: 2, payload: "\u0000" },
  ]) {
    const refused = await client.call("get_weather", { city: "Ghent" }, { [PAYMENT]: payment });
    expect(refused.isError).toBe(true);
    expect(textOf(refused)).toMatch(/invalid_/);
    expect(refused.meta).not.toHaveProperty(RECEIPT);
  }
});

test("a thousand routes are a list of pages, each name once and short enough", async () => {
  const name = "a-very-long-name-of-a-part-of-a-path-that-clients-do-not-take";
  const routes = Array.from({ length: 1_000 }, (_, at) => {
    return `  GET /${name}/${at}: { price: $0.01, description: "Number ${at}" }`;
  });
  const many = await startGateway({ chain, routes: `\n${routes.join("\n")}\n`, more: "mcp: true" });
  await using _ = many;
  const client = await toolClients["@modelcontextprotocol/sdk 1.32.2"]?.(`${many.url}/mcp`);
  const tools = (await client?.list()) ?? [];
  await client?.close();
  const names = tools.map((each) => String(each["name"]));
  expect(new Set(names).size).toBe(1_000);
  expect(names.every((each) => /^[a-z0-9_]{1,48}$/.test(each))).toBe(true);
  expect(tools[999]?.["description"]).toContain("Number 999");
});
