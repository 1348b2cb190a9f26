/** Sockets to a backend: TCP, or TLS with the backend's certificate checked and HTTP/1.1 as only protocol. */
import {
  connect as connectTcp,
  isIP,
  type IpcSocketConnectOpts,
  type OnReadOpts,
  type Socket,
  type TcpSocketConnectOpts,
} from "node:net";
import { connect as connectTls, createSecureContext, type ConnectionOptions } from "node:tls";
import { H1Fault } from "./fault.ts";

/** For `https` origins. */
export interface H1TlsOptions {
  /** Certificates of authorities, PEM, in place of those that Node trusts. */
  readonly ca?: string | Buffer | readonly (string | Buffer)[];
  /** The name in the backend's certificate where it is not that of the origin. */
  readonly servername?: string;
  /** Our own certificate and key, PEM, for backends that ask for one. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

/** Where one backend is, and how sockets to it are opened. */
export class SocketOpener {
  /** What Host says: the name, with the port unless it is the scheme's own. */
  readonly host: string;
  readonly #place: (TcpSocketConnectOpts & { readonly noDelay: true }) | IpcSocketConnectOpts;
  readonly #tls: ConnectionOptions | null;
  /** Of the last handshake, so that the next one is short. */
  #session: Buffer | undefined;

  /**
   * @param path of a socket in the file system, in place of the origin's host and port
   * @throws H1Fault `request` for an origin that is none of `http` or `https`, and for PEM that is none
   */
  constructor(origin: string, tls: H1TlsOptions = {}, path?: string) {
    const url = URL.parse(origin);
    const port = url === null ? undefined : DEFAULT_PORTS[url.protocol];
    if (url === null || port === undefined) {
      throw new H1Fault("request", `${origin} is no origin of http or https.`);
    }
    this.host = url.host;
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    this.#place =
      path === undefined
        ? { host, port: url.port === "" ? port : Number(url.port), noDelay: true }
        : { path };
    this.#tls = url.protocol === "https:" ? tlsOptions(host, tls) : null;
  }

  /** `connect` for TCP, `secureConnect` for TLS. */
  get readyEvent(): "connect" | "secureConnect" {
    return this.#tls === null ? "connect" : "secureConnect";
  }

  open(onread: OnReadOpts): Socket {
    if (this.#tls === null) return connectTcp({ ...this.#place, onread });
    const session = this.#session === undefined ? {} : { session: this.#session };
    const options = { ...this.#place, ...this.#tls, ...session, onread };
    const socket = connectTls(options);
    socket.on("session", (latest: Buffer) => {
      this.#session = latest;
    });
    return socket;
  }
}

function tlsOptions(host: string, options: H1TlsOptions): ConnectionOptions {
  const { servername = isIP(host) === 0 ? host : "" } = options;
  return {
    servername,
    ALPNProtocols: ["http/1.1"],
    rejectUnauthorized: true,
    // Once for all connections: reading certificates costs more than a handshake.
    secureContext: secureContext(options),
  };
}

function secureContext({ ca, cert, key }: H1TlsOptions) {
  try {
    return createSecureContext({
      minVersion: "TLSv1.2",
      ...(ca === undefined
        ? {}
        : { ca: typeof ca === "string" || Buffer.isBuffer(ca) ? ca : [...ca] }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
    });
  } catch (cause) {
    const text = "The certificates or the key for the backend are not what TLS takes.";
    throw new H1Fault("request", text, { cause });
  }
}
