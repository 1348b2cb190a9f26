import { once } from "node:events";
import { connect, constants, type ClientHttp2Session } from "node:http2";
import { Agent, get } from "node:https";
import { connect as tlsConnect } from "node:tls";
import { text } from "node:stream/consumers";
import { expect, it, vi } from "vitest";
import { FIRST } from "../../support/listener-tls.ts";
import { Site } from "../../support/serve.ts";
import { bothWorkersOf, COMES_TRUE, isAlive, logOf, startBackend, type Backend } from "./stage.ts";

vi.setConfig({ testTimeout: 120_000 });

function yamlOf({ url }: Backend): string {
  return `
upstream: ${url}
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: http://127.0.0.1:1
unmatched: deny
workers: 2
routes:
  GET /weather: { price: $0.01, description: Weather }
  GET /health: free
`;
}

/** One request on a connection of its own, over HTTP/1.1. */
async function askAlone(url: string): Promise<string> {
  const agent = new Agent({ ca: FIRST.cert });
  const asked = Promise.withResolvers<string>();
  get(`${url}/health`, { agent }, (answer) => text(answer).then(asked.resolve, asked.reject)).once(
    "error",
    asked.reject,
  );
  try {
    return await asked.promise;
  } finally {
    agent.destroy();
  }
}

/** Requests on HTTP/2 sessions, each kept until the gateway says that it is the last of it. */
class Sessions {
  readonly #url: string;
  #session: ClientHttp2Session | undefined;

  constructor(url: string) {
    this.#url = url;
  }

  async ask(): Promise<string> {
    if (this.#session === undefined || this.#session.closed || this.#session.destroyed) {
      this.#session = connect(this.#url, { ca: FIRST.cert });
      this.#session.on("error", () => undefined);
    }
    const stream = this.#session.request({ ":path": "/health" });
    stream.end();
    try {
      return await text(stream);
    } catch (cause) {
      // It crossed with the word that the session is over: nothing of it was done (RFC 9113 section 8.7).
      if (stream.rstCode === constants.NGHTTP2_REFUSED_STREAM) return this.ask();
      throw cause;
    }
  }

  close(): void {
    this.#session?.destroy();
  }
}

it("SIGHUP under load drops no request of a TLS listener, over HTTP/1.1 and HTTP/2", async () => {
  await using backend = await startBackend((_request, response) => void response.end("fine"));
  await using site = await Site.create({ tls: FIRST });
  const served = await site.serve(yamlOf(backend), {});
  await served.untilReady();
  const url = served.url.replace("http:", "https:");
  const before = [...(await bothWorkersOf(served)).values()];
  const answers = new Map<string, number>();
  const stopping = new AbortController();
  const repeat = async (ask: () => Promise<string>): Promise<void> => {
    while (!stopping.signal.aborted) {
      const answer = await ask().catch(String);
      answers.set(answer, (answers.get(answer) ?? 0) + 1);
    }
  };
  const sessions = Array.from({ length: 4 }, () => new Sessions(url));
  const loops = [
    ...Array.from({ length: 12 }, () => repeat(() => askAlone(url))),
    ...sessions.map((each) => repeat(() => each.ask())),
  ];
  process.kill(served.pid, "SIGHUP");
  await expect
    .poll(() => logOf(served).map(({ msg }) => msg), { ...COMES_TRUE, timeout: 60_000 })
    .toContain("all workers were replaced");
  stopping.abort();
  await Promise.all(loops);
  for (const each of sessions) each.close();
  expect([...answers.keys()]).toEqual(["fine"]);
  expect(before.filter(isAlive)).toEqual([]);
  expect(await served.end("SIGTERM")).toBe(0);
});

it("a TLS session that was agreed on with one worker is taken up by the other", async () => {
  await using backend = await startBackend((_request, response) => void response.end("fine"));
  await using site = await Site.create({ tls: FIRST });
  const served = await site.serve(yamlOf(backend), {});
  await served.untilReady();
  await bothWorkersOf(served);
  const { port } = new URL(served.url);
  const first = await handshake(Number(port));
  expect(first.isReused).toBe(false);
  // The kernel spreads connections: that all of them meet the worker of the first has a chance of 2^-24.
  for (let tries = 0; tries < 24; tries += 1) {
    expect((await handshake(Number(port), first.session)).isReused).toBe(true);
  }
  expect(await served.end("SIGTERM")).toBe(0);
});

interface Handshake {
  readonly isReused: boolean;
  readonly session: Buffer;
}

/** A TLS connection that is closed as soon as its session is known; TLS 1.2 has it in the handshake. */
async function handshake(port: number, session?: Buffer): Promise<Handshake> {
  const resumed = session === undefined ? {} : { session };
  const tls = { ca: FIRST.cert, servername: "localhost", maxVersion: "TLSv1.2" } as const;
  const socket = tlsConnect({ host: "127.0.0.1", port, ...tls, ...resumed });
  const agreed = Promise.withResolvers<Buffer>();
  socket.once("session", agreed.resolve);
  socket.once("error", agreed.reject);
  await once(socket, "secureConnect");
  const isReused = socket.isSessionReused();
  const known = session ?? (await agreed.promise);
  socket.destroy();
  return { isReused, session: known };
}
