/**
 * One HTTP question and one look at a certificate. The look comes first, on a connection of its own that nothing
 * is sent on; what is asked, with whatever secrets, goes only to who has shown a good certificate.
 */
import { request as requestHttp, type IncomingHttpHeaders } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";

/** Of an answer so much is read unless the question says otherwise, bytes. */
const MAX_ANSWER_BYTES = 512 * 1024;

export interface TlsSettings {
  readonly ca?: string | undefined;
  /** The name in the certificate, where it is not the URL's. */
  readonly serverName?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

export interface HttpQuestion {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly tls?: TlsSettings;
  /** Of the answer so much is read. */
  readonly maxBytes?: number;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** From the question to the head of the answer, milliseconds. */
  readonly ms: number;
}

/** What a server shows of itself. */
export interface ShownCertificate {
  readonly validFrom: Date;
  readonly validTo: Date;
  /** OpenSSL's or node's code for why a client refuses it; null: it does not. */
  readonly fault: string | null;
  /** What was agreed on: `h2`, `http/1.1`, or nothing. */
  readonly protocol: string | null;
}

/** Redirects are not followed. Rejects where no complete answer comes before the signal ends. */
export function ask(question: HttpQuestion, signal: AbortSignal): Promise<HttpAnswer> {
  const url = new URL(question.url);
  const { method = "GET", headers = {}, tls = {}, maxBytes = MAX_ANSWER_BYTES } = question;
  const started = performance.now();
  const options = { method, headers, signal, agent: false as const };
  return new Promise((resolve, reject) => {
    const request =
      url.protocol === "https:"
        ? requestHttps(url, { ...options, ...tlsOptions(url, tls) })
        : requestHttp(url, options);
    request.once("error", reject);
    request.once("response", (response) => {
      const ms = performance.now() - started;
      const parts: Buffer[] = [];
      let bytes = 0;
      const finish = (): void => {
        const text = Buffer.concat(parts).toString("utf8");
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, ms });
      };
      response.on("data", (part: Buffer) => {
        parts.push(part);
        bytes += part.length;
        if (bytes < maxBytes) return;
        finish();
        response.destroy();
      });
      response.once("end", finish);
      response.once("error", reject);
    });
    request.end();
  });
}

/**
 * The certificate of an https server, good or not; nothing is sent beyond the handshake.
 * @param protocols offered for ALPN
 */
export function readCertificate(
  { url: text, tls = {} }: Pick<HttpQuestion, "url" | "tls">,
  protocols: readonly string[],
  signal: AbortSignal,
): Promise<ShownCertificate> {
  const url = new URL(text);
  return new Promise((resolve, reject) => {
    const socket: TLSSocket = connectTls({
      host: url.hostname.replace(/^\[|\]$/g, ""),
      port: url.port === "" ? 443 : Number(url.port),
      ALPNProtocols: [...protocols],
      ...tlsOptions(url, tls),
      rejectUnauthorized: false,
    });
    const giveUp = (): void => void socket.destroy(signal.reason);
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    socket.once("error", reject);
    socket.once("close", () => {
      signal.removeEventListener("abort", giveUp);
      reject(new Error("the connection was closed before a certificate was shown"));
    });
    socket.once("secureConnect", () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate === undefined) {
        reject(new Error("no certificate was shown"));
        return;
      }
      const { validFromDate: validFrom, validToDate: validTo } = certificate;
      const protocol = socket.alpnProtocol === false ? null : socket.alpnProtocol;
      resolve({ validFrom, validTo, fault: faultOf(socket), protocol });
    });
  });
}

function faultOf({ authorized, authorizationError }: TLSSocket): string | null {
  if (authorized) return null;
  const fault: unknown = authorizationError;
  if (fault instanceof Error) return "code" in fault ? String(fault.code) : fault.message;
  return String(fault);
}

function tlsOptions(url: URL, { ca, serverName, cert, key }: TlsSettings): ConnectionOptions {
  const name = serverName ?? url.hostname.replace(/^\[|\]$/g, "");
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    // RFC 6066 section 3: an address is no server name.
    ...(isIP(name) === 0 ? { servername: name } : {}),
  };
}
