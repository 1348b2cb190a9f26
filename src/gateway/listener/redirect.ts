/** A listener without TLS that sells nothing: it leads whoever comes to the same place of the public URL. */
import type { Socket } from "node:net";
import type { Gateway } from "../gateway.ts";
import type { InboundRequest, InboundResponse } from "../message/inbound.ts";
import type { HeldCertificates } from "./held-certificates.ts";

export interface RedirectOptions {
  /** Absolute https URL. */
  readonly publicUrl: string;
  /** Other names of ours, who asks by one of which stays there. */
  readonly hosts: readonly string[];
  /** Its challenges are answered here. */
  readonly held: HeldCertificates;
}

/** What may stand in a `Location` as it came. */
const PLAIN_TARGET = /^\/[\x21-\x7e]*$/;
const NOT_HERE = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

export class Redirect implements Pick<
  Gateway,
  "handleRequest" | "handleContinue" | "handleUpgrade"
> {
  readonly #options: RedirectOptions;

  constructor(options: RedirectOptions) {
    this.#options = options;
  }

  readonly handleRequest = (request: InboundRequest, response: InboundResponse): void => {
    if (this.#options.held.answers(request, response)) return;
    const { url = "" } = request;
    if (PLAIN_TARGET.test(url)) {
      // With its method and its body.
      response.writeHead(308, ["Location", this.#originFor(request) + url, "Content-Length", "0"]);
    } else response.writeHead(400, ["Content-Length", "0"]);
    response.end();
  };

  readonly handleContinue = this.handleRequest;

  readonly handleUpgrade = (_request: InboundRequest, socket: Socket): void => {
    socket.end(NOT_HERE);
  };

  #originFor({ headers: { host = "" } }: InboundRequest): string {
    const url = new URL(this.#options.publicUrl);
    const name = host.replace(/:\d*$/, "").toLowerCase();
    if (this.#options.hosts.some((each) => each.toLowerCase() === name)) url.hostname = name;
    return url.origin;
  }
}
