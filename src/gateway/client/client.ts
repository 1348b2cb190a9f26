/**
 * Who asks, as far as it is proven. A client that connects by itself is the peer of its connection; behind
 * proxies that the configuration trusts, it is whoever the outermost of them saw. What anybody else says about
 * its own address, host or protocol is never read.
 */
import { valueOf, valuesOf } from "../message/field-values.ts";

import { readChain, trimBlanks, type Hop } from "./forwarded.ts";
import type { InboundRequest, InboundSocket } from "../message/inbound.ts";
import type { TrustedProxies } from "./trusted-proxies.ts";

export interface Client {
  /**
   * One spelling for each address: `192.0.2.1`, also of a dual-stack socket; IPv6 as RFC 5952 writes it.
   * `unknown` once the connection is gone.
   */
  readonly address: string;
  /** How the client reached the first server that we know of. */
  readonly proto: "http" | "https";
  /** The host that the client asked for there, as `Host` writes it. Never the source of a URL of ours. */
  readonly host: string | undefined;
  /** The peer of its connection, which is no proxy that we know of: nobody else's requests come by it. */
  readonly isDirect: boolean;
  /** For `X-Forwarded-For`: the client, then the proxies that are trusted, the nearest last. */
  readonly forwardedFor: string;
}

export function readClient(request: InboundRequest, trusted: TrustedProxies): Client {
  const { socket, rawHeaders } = request;
  const peer = peerAddress(socket.remoteAddress);
  if (!trusted.isEmpty && trusted.has(peer)) return readProxied(request, peer, trusted);
  const host = valueOf(rawHeaders, "host");
  return { address: peer, proto: protoOf(socket), host, isDirect: true, forwardedFor: peer };
}

/** A dual-stack socket reports IPv4 clients as `::ffff:192.0.2.1`, and link-local ones with their zone. */
export function peerAddress(address: string | undefined): string {
  if (address === undefined) return "unknown";
  if (address.startsWith("::ffff:") && address.includes(".")) return address.slice(7);
  const zone = address.indexOf("%");
  return zone === -1 ? address : address.slice(0, zone);
}

function protoOf(socket: InboundSocket): Client["proto"] {
  return socket.encrypted === true ? "https" : "http";
}

/** The first address from the right that is not trusted, or the last one that is proven. */
function readProxied(
  { socket, rawHeaders }: InboundRequest,
  peer: string,
  trusted: TrustedProxies,
): Client {
  const chain = readChain(rawHeaders);
  const proven = [peer];
  let address = peer;
  let last: Hop | null = null;
  while (trusted.has(address)) {
    const hop = chain.next();
    if (hop === null) break;
    last = hop;
    ({ address } = hop);
    proven.push(address);
  }
  // The `X-Forwarded-` fields belong to no hop, so only what our peer wrote last counts; `Forwarded` tells them of the
  // client's own hop.
  const host = lastOf(rawHeaders, "x-forwarded-host") ?? last?.host;
  const proto = (lastOf(rawHeaders, "x-forwarded-proto") ?? last?.proto)?.toLowerCase() ?? "";
  return {
    address,
    proto: (Object.hasOwn(PROTOS, proto) ? PROTOS[proto] : undefined) ?? protoOf(socket),
    host: host !== undefined && HOST.test(host) ? host : valueOf(rawHeaders, "host"),
    isDirect: false,
    forwardedFor: proven.toReversed().join(", "),
  };
}

function lastOf(rawHeaders: readonly string[], name: string): string | undefined {
  const line = valuesOf(rawHeaders, name).at(-1);
  return line === undefined ? undefined : trimBlanks(line.slice(line.lastIndexOf(",") + 1));
}

/** Proxies of WebSockets tell `ws` and `wss`. */
const PROTOS: Readonly<Record<string, Client["proto"]>> = {
  http: "http",
  https: "https",
  ws: "http",
  wss: "https",
};

/** A name or an address with or without a port, and nothing that a line or a URL could be broken with. */
const HOST =
  /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/;
