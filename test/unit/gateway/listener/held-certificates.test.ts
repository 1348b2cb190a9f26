/** Which certificate a client gets, what an authority gets that looks, and what neither of them is led to. */
import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import { connect as connectPlain, type AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { connect, type PeerCertificate } from "node:tls";
import { afterEach, describe, expect, test, vi } from "vitest";
import { NO_CERTIFICATES, type ToldChallenge } from "../../../../src/certificates/told.ts";
import { CertifiedServer } from "../../../../src/gateway/listener/certified-server.ts";
import { HeldCertificates } from "../../../../src/gateway/listener/held-certificates.ts";
import { readHello } from "../../../../src/gateway/listener/hello.ts";
import { Redirect } from "../../../../src/gateway/listener/redirect.ts";
import { FIRST, SECOND } from "../../../support/listener-tls.ts";

const ONE = { domain: "one.example", ...FIRST };
const TWO = { domain: "two.example", ...SECOND };
const CHALLENGE: ToldChallenge = { kind: "tls-alpn-01", ...TWO, domain: "one.example" };

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

async function opened(held: HeldCertificates): Promise<number> {
  const secure = new CertifiedServer({}, { held });
  secure.server.on("request", (_, response) => void response.end("hello"));
  secure.server.listen(0, "127.0.0.1");
  await once(secure.server, "listening");
  open.push({
    close: () => {
      secure.destroy();
      secure.server.close();
    },
  });
  return (secure.server.address() as AddressInfo).port;
}

interface Shook {
  readonly name: string;
  readonly protocol: string | false | null;
}

function shake(port: number, servername: string, ...protocols: readonly string[]): Promise<Shook> {
  const { promise, resolve, reject } = Promise.withResolvers<Shook>();
  const options = { host: "127.0.0.1", port, servername, rejectUnauthorized: false };
  const socket = connect({ ...options, ALPNProtocols: [...protocols] }, () => {
    const { subject }: PeerCertificate = socket.getPeerCertificate();
    resolve({ name: String(subject.CN), protocol: socket.alpnProtocol });
    socket.destroy();
  });
  socket.once("error", reject);
  return promise;
}

const FIRST_NAME = "first.shop.example";
const SECOND_NAME = "second.shop.example";

describe("a listener that is told its certificates", () => {
  test("serves each name its own and others the first, and nothing before it was told", async () => {
    const held = new HeldCertificates();
    const port = await opened(held);
    await expect(shake(port, "one.example", "http/1.1")).rejects.toThrow(/handshake failure/);
    held.tell({ certificates: [ONE, TWO], challenges: [] });
    expect(await shake(port, "ONE.example", "http/1.1")).toMatchObject({ name: FIRST_NAME });
    expect(await shake(port, "two.example", "http/1.1")).toMatchObject({ name: SECOND_NAME });
    expect(await shake(port, "three.example", "http/1.1")).toMatchObject({ name: FIRST_NAME });
    held.tell({ certificates: [{ ...TWO, domain: "one.example" }], challenges: [] });
    expect(await shake(port, "one.example", "http/1.1")).toMatchObject({ name: SECOND_NAME });
  });

  test("takes up the sessions of a name again, also after another certificate has come", async () => {
    const held = new HeldCertificates();
    held.tell({ certificates: [ONE, TWO], challenges: [] });
    const port = await opened(held);
    const visit = async (session?: Buffer): Promise<readonly [boolean, Buffer | undefined]> => {
      const known = session === undefined ? {} : { session };
      const place = { host: "127.0.0.1", port, servername: "two.example" };
      const socket = connect({ ...place, rejectUnauthorized: false, ...known });
      let ticket: Buffer | undefined;
      socket.on("session", (told: Buffer) => (ticket = told));
      socket.write("GET / HTTP/1.1\r\nHost: two.example\r\n\r\n");
      await once(socket, "data");
      const isReused = socket.isSessionReused();
      socket.destroy();
      return [isReused, ticket];
    };
    const [isReused, session] = await visit();
    expect(isReused).toBe(false);
    expect((await visit(session))[0]).toBe(true);
    held.tell({ certificates: [ONE, { ...FIRST, domain: "two.example" }], challenges: [] });
    expect((await visit(session))[0]).toBe(true);
  });

  test("shows an authority what it looks for, and nobody else, while it may look", async () => {
    const held = new HeldCertificates();
    const port = await opened(held);
    held.tell({ certificates: [ONE], challenges: [CHALLENGE] });
    const seen = { name: SECOND_NAME, protocol: "acme-tls/1" };
    expect(await shake(port, "one.example", "acme-tls/1")).toEqual(seen);
    expect(await shake(port, "one.example", "http/1.1")).toMatchObject({ name: FIRST_NAME });
    await expect(shake(port, "two.example", "acme-tls/1")).rejects.toThrow();
    held.tell({ certificates: [ONE], challenges: [] });
    await expect(shake(port, "one.example", "acme-tls/1")).rejects.toThrow(
      /no application protocol/,
    );
  });

  test("answers buyers whose hello comes in pieces, and cuts what is no TLS, meanwhile", async () => {
    const held = new HeldCertificates();
    held.tell({ certificates: [ONE], challenges: [CHALLENGE] });
    const port = await opened(held);
    const through = connectPlain(port, "127.0.0.1");
    const pieces = new PassThrough();
    pieces.on("data", (chunk: Buffer) => {
      for (const byte of chunk) through.write(Buffer.of(byte));
    });
    const socket = connect({ socket: duplexOf(through, pieces), rejectUnauthorized: false });
    await once(socket, "secureConnect");
    expect(socket.getPeerCertificate().subject.CN).toBe(FIRST_NAME);
    socket.destroy();
    const plain = connectPlain(port, "127.0.0.1");
    plain.on("error", () => undefined);
    plain.write("GET / HTTP/1.1\r\n\r\n");
    await once(plain, "close");
  });
});

function duplexOf(reading: NodeJS.ReadableStream, writing: PassThrough) {
  const both = new PassThrough();
  both.write = writing.write.bind(writing);
  reading.on("data", (chunk) => both.push(chunk));
  return both;
}

describe("the first record of a connection", () => {
  test("is not waited for where it says to be longer than a record is", async () => {
    const socket = connection();
    const hello = readHello(socket);
    const sent = Buffer.from([22, 3, 1, 0xff, 0xff, 1]);
    socket.emit("arrive", sent);
    expect(await hello).toEqual(sent);
  });

  test("is waited for no longer than a handshake may take", async () => {
    vi.useFakeTimers();
    try {
      const socket = connection();
      const hello = readHello(socket);
      socket.emit("arrive", Buffer.from([22, 3, 1]));
      await vi.advanceTimersByTimeAsync(10_000);
      expect(socket.destroyed).toBe(true);
      expect(await hello).toBeUndefined();
    } finally {
      vi.useRealTimers();
    }
  });
});

/** What a socket is to who reads its first record. */
function connection(): PassThrough {
  const stream = new PassThrough();
  stream.on("arrive", (bytes: Buffer) => void stream.write(bytes));
  return stream;
}

describe("a listener that leads to the public URL", () => {
  const held = new HeldCertificates();
  const publicUrl = "https://shop.example:8443/api";
  const redirect = new Redirect(held, {
    publicUrl,
    hosts: [
      ["other.example", publicUrl],
      ["dear.example", "https://dear.example:9443"],
      ["*.shops.example", publicUrl],
      ["*.example", "https://www.example"],
    ],
  });

  async function ask(
    path: string,
    host: string,
  ): Promise<readonly [number, string | undefined, string]> {
    const server: Server = createServer(redirect.handleRequest).listen(0, "127.0.0.1");
    await once(server, "listening");
    open.push({ close: () => void server.close() });
    const { port } = server.address() as AddressInfo;
    const { promise, resolve, reject } =
      Promise.withResolvers<[number, string | undefined, string]>();
    const asked = request(
      { host: "127.0.0.1", port, path, headers: { host }, agent: false },
      (answer) => {
        let body = "";
        answer.on("data", (chunk) => (body += String(chunk)));
        answer.on("end", () => resolve([answer.statusCode ?? 0, answer.headers.location, body]));
      },
    );
    asked.once("error", reject);
    asked.end();
    return promise;
  }

  test.each([
    ["/a?b=c", "shop.example", "https://shop.example:8443/a?b=c"],
    ["//evil.example/a", "shop.example:80", "https://shop.example:8443//evil.example/a"],
    ["/a", "OTHER.example", "https://other.example:8443/a"],
    ["/a", "evil.test", "https://shop.example:8443/a"],
    ["/a", "other.example.:80", "https://other.example:8443/a"],
    ["/a", "dear.example", "https://dear.example:9443/a"],
    ["/a", "one.shops.example", "https://one.shops.example:8443/a"],
    ["/a", "evil.test/.shops.example", "https://shop.example:8443/a"],
    ["/a", "evil.test?.shops.example", "https://shop.example:8443/a"],
    ["/a", "me@one.shops.example", "https://shop.example:8443/a"],
    ["/a", "*.shops.example", "https://shop.example:8443/a"],
    ["/a", "", "https://shop.example:8443/a"],
    [
      "/.well-known/acme-challenge/x",
      "shop.example",
      "https://shop.example:8443/.well-known/acme-challenge/x",
    ],
  ])("%s of %s to %s", async (path, host, location) => {
    expect(await ask(path, host)).toEqual([308, location, ""]);
  });

  test("leads elsewhere once it is told so", async () => {
    const led = new Redirect(held, { publicUrl, hosts: [] });
    led.lead({
      publicUrl: "https://new.example",
      hosts: [["kept.example", "https://new.example"]],
    });
    const place = (host: string) => {
      const { promise, resolve } = Promise.withResolvers<unknown>();
      const response = {
        writeHead: (_: number, lines: string[]) => resolve(lines[1]),
        end: () => 0,
      };
      led.handleRequest({ url: "/a", headers: { host } } as never, response as never);
      return promise;
    };
    expect(await place("shop.example")).toBe("https://new.example/a");
    expect(await place("kept.example")).toBe("https://kept.example/a");
  });

  test("and has no word for what is no path", async () => {
    expect(await ask("http://evil.example/a", "evil.example")).toEqual([400, undefined, ""]);
  });

  test("answers what an authority looks for, at that path alone, while it may look", async () => {
    const told: ToldChallenge = {
      kind: "http-01",
      domain: "shop.example",
      token: "t0k",
      answer: "t0k.key",
    };
    held.tell({ certificates: [], challenges: [told] });
    const place = "/.well-known/acme-challenge/";
    expect(await ask(`${place}t0k`, "shop.example")).toEqual([200, undefined, "t0k.key"]);
    expect((await ask(`${place}t0k/`, "shop.example"))[0]).toBe(308);
    expect((await ask(`${place}other`, "shop.example"))[0]).toBe(308);
    held.tell(NO_CERTIFICATES);
    expect((await ask(`${place}t0k`, "shop.example"))[0]).toBe(308);
  });
});
