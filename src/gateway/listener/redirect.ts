/** A listener without TLS that sells nothing: it leads whoever comes to the same place of the public URL. */
import type { Socket } from "node:net";
import { HostTable } from "../../http/host-names.ts";
import type { Gateway } from "../gateway.ts";
import type { InboundRequest, InboundResponse } from "../message/inbound.ts";
import type { HeldCertificates } from "./held-certificates.ts";

export interface RedirectPlaces {
  /** Absolute https URL. */
  readonly publicUrl: string;
  /** Other names of ours, or `*.NAME`, who asks by one of which stays there: with the port of that https URL. */
  readonly hosts: readonly (readonly [name: string, publicUrl: string])[];
}

/** Of a `Host` that is a name: anything else would say in a URL what it does not say here. */
const NAME = /^[\w.-]+(?=(?::\d*)?$)/;

/** What may stand in a `Location` as it came. */
const PLAIN_TARGET = /^\/[\x21-\x7e]*$/;
const NOT_HERE = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

export class Redirect implements Pick<
  Gateway,
  "handleRequest" | "handleContinue" | "handleUpgrade"
> {
  readonly #held: Pick<HeldCertificates, "answers">;
  #origin = "";
  #hosts = new HostTable<string>([]);

  /** @param held its challenges are answered here */
  constructor(held: Pick<HeldCertificates, "answers">, places: RedirectPlaces) {
    this.#held = held;
    this.lead(places);
  }

  /** From here on that is where requests are led. */
  lead({ publicUrl, hosts }: RedirectPlaces): void {
    const own = new URL(publicUrl);
    this.#origin = own.origin;
    this.#hosts = new HostTable([[own.host, publicUrl], ...hosts]);
  }

  readonly handleRequest = (request: InboundRequest, response: InboundResponse): void => {
    if (this.#held.answers(request, response)) return;
    const { url = "" } = request;
    if (PLAIN_TARGET.test(url)) {
      // With its method and its body.
      response.writeHead(308, ["Location", this.#originFor(request) + url, "Content-Length", "0"]);
    } else response.writeHead(400, ["Content-Length", "0"]);
    response.end();
  };

  readonly handleContinue = this.handleRequest;

  readonly handleUpgrade = (_request: InboundRequest, socket: Socket): void => {
    // Node takes its own listeners off before it hands a socket over: a reset would end the process.
    socket.on("error", () => socket.destroy());
    socket.end(NOT_HERE, () => socket.destroy());
  };

  #originFor({ headers: { host = "" } }: InboundRequest): string {
    const told = this.#hosts.of(host);
    const [name] = NAME.exec(host) ?? [];
    if (told === undefined || name === undefined) return this.#origin;
    const url = new URL(told);
    url.hostname = name.replace(/\.$/, "");
    return url.origin;
  }
}
