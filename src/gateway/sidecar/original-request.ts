/**
 * The request that a proxy asks about, read from the check that the proxy sent. Whatever the proxy does not say
 * exactly once is refused: a line that is missing or there twice may be the client's.
 */
import { valuesOf } from "../message/field-values.ts";
import type { IncomingHttpHeaders } from "node:http";
import { trimBlanks } from "../client/forwarded.ts";
import { readIp, writeIp } from "../../http/ip-address.ts";
import { nameProblem } from "../message/field-lines.ts";
import type { InboundRequest, InboundSocket } from "../message/inbound.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import type { Dialect } from "./dialect.ts";

/** A method's name (RFC 9110 section 9.1), and no longer than any that there is. */
const METHOD = /^[!#$%&'*+.^`|~\w-]{1,32}$/;

/** Lines of the check that are not the client's: they belong to the proxy's own request. */
const OF_THE_CHECK = ["connection", "content-length", "expect", "transfer-encoding", "upgrade"];

const CHAIN = "x-forwarded-for";

export interface AskedOriginally {
  readonly method: string;
  /** Path and query, byte for byte. */
  readonly uri: string;
}

/**
 * @param asked null: as the dialect's lines say
 * @returns what is wrong with the proxy's set-up where it cannot be read
 */
export function readOriginal(
  check: InboundRequest,
  dialect: Dialect,
  asked: AskedOriginally | null,
): Result<OriginalRequest, string> {
  const read = asked === null ? readLines(check, dialect) : ok(asked);
  if (!read.ok) return read;
  const { method, uri } = read.value;
  if (!METHOD.test(method)) return err("the method that it asks about is none");
  const isTarget = uri.startsWith("/") || (uri === "*" && method === "OPTIONS");
  if (!isTarget) return err("the URI that it asks about does not begin with a slash");
  const chain = valuesOf(check.rawHeaders, CHAIN).join(",");
  const comma = chain.lastIndexOf(",");
  if (!readIp(trimBlanks(chain.slice(comma + 1)), words)) {
    return err("no X-Forwarded-For says which address asks");
  }
  const address = writeIp(words);
  const hosts = dialect.host === null ? [] : valuesOf(check.rawHeaders, dialect.host);
  if (hosts.length > 1) return err(`the line ${dialect.host} is there ${hosts.length} times`);
  const [host = null] = hosts;
  const client = { address, before: comma === -1 ? null : chain.slice(0, comma), host };
  return ok(new OriginalRequest(check, { method, uri }, dialect, client));
}

function readLines(
  { rawHeaders }: InboundRequest,
  { lines }: Dialect,
): Result<AskedOriginally, string> {
  if (lines === null) return err("the URI that it asks about does not stand behind /check");
  const method = onlyOf(rawHeaders, lines.method);
  if (!method.ok) return method;
  const uri = onlyOf(rawHeaders, lines.uri);
  return uri.ok ? ok({ method: method.value, uri: uri.value }) : uri;
}

function onlyOf(rawHeaders: readonly string[], name: string): Result<string, string> {
  const values = valuesOf(rawHeaders, name);
  const [value] = values;
  if (value === undefined) return err(`the line ${name} is missing`);
  return values.length === 1 ? ok(value) : err(`the line ${name} is there ${values.length} times`);
}

/** Written anew by whoever reads an address, and read at once: no check needs one of its own. */
const words = new Uint32Array(4);

interface ToldClient {
  /** Whom the proxy is connected to. */
  readonly address: string;
  /** What was said of others before that one; null: nothing. */
  readonly before: string | null;
  /** Whom it asks; null: as the check's Host says. */
  readonly host: string | null;
}

/** As if the client had sent it to us: without a body, which stays with the proxy. */
export class OriginalRequest implements InboundRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion = "1.1";
  readonly httpVersionMajor = 1;
  readonly httpVersionMinor = 1;
  readonly rawHeaders: string[];
  readonly headers: IncomingHttpHeaders;
  readonly nameProblem: string | null;
  readonly rawTrailers: string[] = [];
  readonly complete = true;
  readonly destroyed = false;
  readonly readableFlowing = null;
  readonly socket: InboundSocket;

  constructor(
    check: InboundRequest,
    asked: AskedOriginally,
    { lines }: Dialect,
    client: ToldClient,
  ) {
    this.method = asked.method;
    this.url = asked.uri;
    const own = lines === null ? [] : [lines.method, lines.uri];
    const told = client.host === null ? [] : ["host"];
    const dropped = new Set([...OF_THE_CHECK, CHAIN, ...own, ...told]);
    const { rawHeaders } = check;
    this.rawHeaders = rawHeaders.filter(
      (_, index) => !dropped.has((rawHeaders[index - (index % 2)] ?? "").toLowerCase()),
    );
    this.nameProblem = nameProblem(rawHeaders);
    const kept = Object.entries(check.headers).filter(([name]) => !dropped.has(name));
    if (client.before !== null) {
      this.rawHeaders.push("X-Forwarded-For", client.before);
      kept.push([CHAIN, client.before]);
    }
    if (client.host !== null) {
      this.rawHeaders.push("Host", client.host);
      kept.push(["host", client.host]);
    }
    this.headers = Object.fromEntries(kept);
    this.socket = new ToldSocket(check.socket, client.address);
  }

  /** No body ever comes. */
  on(): this {
    return this;
  }

  once(): this {
    return this;
  }

  off(): this {
    return this;
  }

  pause(): this {
    return this;
  }

  resume(): this {
    return this;
  }

  destroy(): this {
    this.socket.destroy();
    return this;
  }
}

/** The connection of the check, under the address of the client. */
class ToldSocket implements InboundSocket {
  readonly #socket: InboundSocket;
  readonly remoteAddress: string;

  constructor(socket: InboundSocket, address: string) {
    this.#socket = socket;
    this.remoteAddress = address;
  }

  get destroyed(): boolean {
    return this.#socket.destroyed;
  }

  get bytesRead(): number {
    return this.#socket.bytesRead;
  }

  get writableLength(): number {
    return this.#socket.writableLength;
  }

  setTimeout(ms: number): unknown {
    return this.#socket.setTimeout(ms);
  }

  resetAndDestroy(): unknown {
    return this.#socket.resetAndDestroy();
  }

  destroy(): unknown {
    return this.#socket.destroy();
  }
}
