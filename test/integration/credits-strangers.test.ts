/** What strangers try with what they have prepaid: by another way in, and at the worst moment. */
import { randomUUID } from "node:crypto";
import { request as httpRequest, type IncomingMessage, type RequestListener } from "node:http";
import { createServer, type Socket } from "node:net";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type GatewaySetup, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { balanceIn, prepay } from "../support/prepaid.ts";
import { openSessionAt } from "../support/sign-in.ts";

const FILLED = 1_000_000n;
const ROUTES = `
  GET /weather: { price: $0.001, description: Weather, credits: true }
  GET /papers/:id: { price: $0.001, description: A paper, credits: true }
`;
const CREDITS = "credits: { packs: [$1] }";

const closing = new AsyncDisposableStack();
let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
});

afterAll(() => closing.disposeAsync());

interface Shop extends AsyncDisposable {
  readonly gateway: RunningGateway;
  readonly token: string;
  readonly left: () => bigint;
  readonly storePath: string;
  readonly other: FreshAccount;
}

/** Where two buyers have prepaid a dollar each. */
async function openShop(setup: Omit<Partial<GatewaySetup>, "chain">): Promise<Shop> {
  const storePath = join(tmpdir(), `coinslot-strangers-${randomUUID()}`, "ledger.db");
  const [buyer, other] = [freshAccount(), freshAccount()];
  await prepay(storePath, { [buyer.address]: FILLED, [other.address]: FILLED });
  const routes = ROUTES;
  const gateway = await startGateway({ chain, routes, storePath, more: CREDITS, ...setup });
  return {
    gateway,
    token: await openSessionAt(gateway.url, buyer),
    left: () => balanceIn(storePath, buyer.address),
    storePath,
    other,
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

function leasedIn(storePath: string): bigint {
  const database = new DatabaseSync(storePath, { readOnly: true });
  const row = database.prepare("SELECT coalesce(sum(leased), 0) AS leased FROM pots").get();
  database.close();
  return BigInt(String(row?.["leased"]));
}

/** A backend that answers each head with these bytes. */
async function answering(bytes: string): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => socket.write(bytes));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.defer(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${Object(server.address()).port}`;
}

/** The answer to a handshake, its tunnel closed again. */
function handshake({ gateway, token }: Shop, path: string): Promise<IncomingMessage> {
  const headers = {
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    [SESSION_HEADER]: token,
  };
  return new Promise((resolve, reject) => {
    const asked = httpRequest(gateway.url + path, { headers });
    asked.on("upgrade", (answer, socket) => {
      socket.destroy();
      resolve(answer);
    });
    asked.on("response", (answer) => resolve(answer.resume()));
    asked.on("error", reject).end();
  });
}

it("who holds back what he has asked for leaves a part of the risk to others, and gets his turn", async () => {
  const held: (() => void)[] = [];
  const backend: RequestListener = (asked, response) => {
    if (asked.url === "/weather") response.end("at once");
    else held.push(() => response.end("held"));
  };
  const more = "credits: { packs: [$1], atRisk: $0.004 }";
  await using shop = await openShop({ backend, more });
  const { gateway } = shop;
  const ask = async (path: string, token: string): Promise<unknown> => {
    const answer = await fetch(gateway.url + path, { headers: { [SESSION_HEADER]: token } });
    return [answer.status, await answer.text()];
  };
  const slow = [1, 2, 3, 4, 5].map((number) => ask(`/papers/${number}`, shop.token));
  await vi.waitFor(() => expect(held.length).toBe(2));
  const other = await openSessionAt(gateway.url, shop.other);
  for (let times = 0; times < 5; times += 1) {
    expect(await ask("/weather", other)).toEqual([200, "at once"]);
  }
  expect(held.length).toBe(2);
  // Each that is let go makes room for one.
  const letGo = setInterval(() => held.shift()?.(), 5);
  expect(await Promise.all(slow)).toEqual(slow.map(() => [200, "held"]));
  clearInterval(letGo);
});

it("a WebSocket costs its price as soon as it is open, is told so, and a redirect in its place nothing", async () => {
  const open =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  await using shop = await openShop({ upstreamUrl: await answering(open) });
  const switched = await handshake(shop, "/weather");
  expect([switched.statusCode, switched.headers["x-402-charged"]]).toEqual([101, "0.001 USDC"]);
  await vi.waitFor(() => expect(shop.left()).toBe(FILLED - 1_000n));
  const elsewhere = "HTTP/1.1 302 Found\r\nLocation: /papers/1\r\nContent-Length: 0\r\n\r\n";
  await using other = await openShop({ upstreamUrl: await answering(elsewhere) });
  const led = await handshake(other, "/weather");
  expect([led.statusCode, led.headers["x-402-charged"]]).toEqual([302, undefined]);
  await handshake(other, "/weather");
  await other.gateway.running.close();
  expect(other.left()).toBe(FILLED);
});

it("an answer that a shutdown cuts costs nothing, and what was reserved for it is given back by its end", async () => {
  const backend: RequestListener = (_asked, response) => {
    response.writeHead(200, { "Content-Type": "text/plain" }).write("it begins");
  };
  await using shop = await openShop({ backend, more: `${CREDITS}\nshutdown: 100ms` });
  const { gateway, token } = shop;
  const begun = await fetch(`${gateway.url}/weather`, { headers: { [SESSION_HEADER]: token } });
  expect([begun.status, begun.headers.get("X-402-Charged")]).toEqual([200, "0.001 USDC"]);
  const rest = begun.text().then(
    () => "whole",
    () => "cut",
  );
  await gateway.running.close();
  expect(await rest).toBe("cut");
  // Nothing of it is with a life that is over.
  expect([shop.left(), leasedIn(shop.storePath)]).toEqual([FILLED, 0n]);
});
