import { describe, expect, test } from "vitest";
import { HostNames } from "../../../src/http/host-names.ts";
import { connectHttp2, openSecureShop, send2, type SecureShop } from "./listener/secure-stage.ts";
import { buy, openShop } from "./shop.ts";
import { backend, RawClient, send } from "./stage.ts";

async function open(only: boolean): Promise<SecureShop & { readonly asked: string[] }> {
  const asked: string[] = [];
  const origin = await backend((request, response) => {
    asked.push(String(request.headers["x-forwarded-host"]));
    response.end("goods");
  });
  const hosts = { names: new HostNames(["shop.example"]), only };
  return { ...(await openSecureShop(origin, { hosts })), asked };
}

const HANDSHAKE = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];
const OTHER = ["Host", "other.example"];

describe("where hosts are listed, a request for another one", () => {
  test.each(["/free", "/paid"])(
    "of %s is misdirected, whatever it costs and pays",
    async (path) => {
      const { shop, asked } = await open(true);
      for (const method of ["GET", "HEAD", "POST", "OPTIONS"]) {
        const { status, headers } = await send(shop.port, { path, method, headers: OTHER });
        expect([status, headers["cache-control"]]).toEqual([421, "no-store"]);
      }
      expect(await buy(shop, { path, headers: OTHER })).toMatchObject({ status: 421 });
      expect(shop.facilitator.verified).toEqual([]);
      expect(asked).toEqual([]);
    },
  );

  test("is misdirected over HTTP/2, whose connection goes on", async () => {
    const { port } = await open(true);
    const session = await connectHttp2(port);
    const ask = (authority: string) =>
      send2(session, { path: "/free", headers: { ":authority": authority } });
    expect(await ask("other.example")).toMatchObject({ status: 421 });
    expect(await ask("shop.example")).toMatchObject({ status: 200 });
  });

  test("is misdirected as an upgrade and as one that waits for 100", async () => {
    const { shop } = await open(true);
    for (const [method, ...lines] of [
      ["POST", "Expect: 100-continue", "Content-Length: 5"],
      ["GET", ...HANDSHAKE],
    ]) {
      const head = [`${method} /free HTTP/1.1`, "Host: other.example", ...lines, "", ""];
      const client = new RawClient(shop.port, head.join("\r\n"));
      expect(await client.until("\r\n\r\n")).toMatch(/^HTTP\/1\.1 421 /);
    }
  });

  test("is answered where it asks by an address or by nothing, as probes do", async () => {
    const { shop, asked } = await open(true);
    for (const host of [`127.0.0.1:${shop.port}`, "localhost", "[::1]", "shop.example:81"]) {
      expect(await send(shop.port, { path: "/free", headers: ["Host", host] })).toMatchObject({
        status: 200,
      });
    }
    const client = new RawClient(shop.port, "GET /free HTTP/1.0\r\n\r\n");
    expect(await client.until("goods")).toMatch(/^HTTP\/1\.1 200 /);
    expect(asked).toHaveLength(5);
  });
});

test("where none are listed, other hosts are answered, and the operator is told of one", async () => {
  const log: string[] = [];
  const origin = await backend((_request, response) => void response.end("goods"));
  const hosts = { names: new HostNames(["shop.example"]), only: false };
  const { port } = await openShop(origin, { hosts, log });
  await send(port, { path: "/free", headers: ["Host", "shop.example"] });
  await send(port, { path: "/free", headers: ["Host", "127.0.0.1"] });
  expect(log).toEqual([]);
  for (const path of ["/free", "/paid"]) {
    expect((await send(port, { path, headers: OTHER })).status).not.toBe(421);
  }
  expect(log).toEqual([expect.stringContaining('"host":"other.example"')]);
});
