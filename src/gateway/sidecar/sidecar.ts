/**
 * The listener of a gateway whose data path is another proxy's: the proxy asks about every request before it passes
 * it on, and is answered by the same decision and the same money path as a client would be.
 *
 *     /check           may this request pass? (the request in lines, or with its path behind /check)
 *     /held            the answer to a request that may not, for proxies that learn only that
 *     /report          how the backend answered a paid request, for proxies that can tell
 *     /answer/…        the answer to a request that needs no backend, for proxies that take 2xx for a pass
 */
import { valueOf } from "../message/field-values.ts";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger } from "../../telemetry/logger.ts";
import { PAYMENT_NAMES } from "../../x402/header.ts";
import { SIGN_IN_HEADER } from "../../x402/sign-in.ts";
import { X402_VERSION, X402_VERSION_2 } from "../../x402/x402.ts";
import { errorAnswer, type Answer } from "../answers.ts";
import { peerAddress } from "../client/client.ts";
import { TrustedProxies, type TrustedRange } from "../client/trusted-proxies.ts";
import type { Gateway } from "../gateway.ts";
import { MAX_HEADER_LINES } from "../listener/http2-head.ts";
import { serverOptions } from "../listener/http1-server.ts";
import { drain, listen } from "../listener/listener.ts";

import {
  CheckVisitor,
  HELD,
  REPORT,
  writeAnswer,
  type CheckTerms,
  type Manner,
} from "./check-visitor.ts";
import { DIALECTS, type SidecarProxy } from "./dialect.ts";
import { HeldAnswers } from "./held-answers.ts";
import { readOriginal, type AskedOriginally, type OriginalRequest } from "./original-request.ts";
import { Passes } from "./passes.ts";

/** Beside the client's own head, a check holds its URI once more, and a few lines of the proxy. */
const CHECK_HEAD_BYTES = 16 * 1024;
/** Lines that a proxy adds to those of the client. */
const CHECK_LINES = 20;
/** Pause before an operator is told of the same again, milliseconds. */
const SAY_PAUSE_MS = 60_000;

export interface SidecarOptions {
  readonly gateway: Gateway;
  /** Null: every interface. */
  readonly host: string | null;
  readonly port: number;
  readonly proxy: SidecarProxy;
  /** Who may ask; everybody else is refused. */
  readonly peers: readonly TrustedRange[];
  /**
   * When a payment counts as delivered: `once`, as soon as its request may pass; `repeatable`, so too, and the
   * same client may ask for the same again; `reported`, when the proxy says how its backend answered.
   */
  readonly delivery: "once" | "repeatable" | "reported";
  /** Longest wait for such a report, milliseconds. */
  readonly reportWithinMs: number;
  /** Largest request head of a client, bytes. */
  readonly headerBytes: number;
  readonly logger: Logger;
  /** From here on connections are not kept. */
  readonly retiring: AbortSignal;
}

export class Sidecar {
  readonly #options: SidecarOptions;
  readonly #server: Server;
  readonly #peers: TrustedProxies;
  readonly #manner: Manner;
  /** Payments that are being looked at, as they were written, and for how many requests. */
  readonly #payments = new Map<string, number>();
  readonly #saidAt = new Map<string, number>();

  constructor(options: SidecarOptions) {
    const { proxy, peers, delivery, reportWithinMs, headerBytes, retiring } = options;
    this.#options = options;
    this.#peers = new TrustedProxies(peers);
    const unreported = (): void => this.#say("no report came about a paid request", { proxy });
    this.#manner = {
      answers: DIALECTS[proxy].answers,
      held: new HeldAnswers(),
      passes: delivery === "reported" ? new Passes(reportWithinMs, unreported) : null,
      isRepeatable: delivery === "repeatable",
    };
    this.#server = createServer({
      ...serverOptions(headerBytes + CHECK_HEAD_BYTES),
      // What a client wants to switch to is asked about as any other request.
      shouldUpgradeCallback: () => false,
    });
    this.#server.maxHeadersCount = MAX_HEADER_LINES + CHECK_LINES;
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      if (retiring.aborted) response.shouldKeepAlive = false;
      this.#onRequest(request, response);
    };
    this.#server.on("request", onRequest);
    this.#server.on("checkContinue", onRequest);
    this.#server.on("checkExpectation", onRequest);
  }

  /** Resolves with the address once checks are accepted; rejects when it cannot be had. */
  open(): Promise<AddressInfo> {
    const { host, port } = this.#options;
    return listen(this.#server, { host, port });
  }

  /** Takes nothing new; no report comes any more when it resolves. */
  async drain(signal: AbortSignal): Promise<void> {
    await drain(this.#server, signal);
    this.#manner.passes?.close();
  }

  #onRequest(request: IncomingMessage, response: ServerResponse): void {
    const { remoteAddress } = request.socket;
    if (!this.#peers.has(peerAddress(remoteAddress))) {
      this.#say("refused a check from an address that sidecar.peers does not name", {
        remoteAddress,
      });
      writeAnswer(response, errorAnswer(403, "not for you", CLOSE));
      return;
    }
    const [path = ""] = (request.url ?? "").split("?", 1);
    if (hasBody(request)) this.#misread(response, "a check has a body: leave it with the client");
    else if (path === "/held") writeAnswer(response, this.#held(request));
    else if (path === "/report") writeAnswer(response, this.#report(request));
    else if (path === "/check") this.#check(request, response, null);
    else if (path.startsWith("/check/") && DIALECTS[this.#options.proxy].lines === null) {
      this.#check(request, response, askedBehind("/check", request));
    } else if (path.startsWith("/answer/")) {
      this.#answer(request, response, askedBehind("/answer", request));
    } else this.#misread(response, "it asks neither for /check nor for what belongs to it");
  }

  #check(request: IncomingMessage, response: ServerResponse, asked: AskedOriginally | null): void {
    const original = readOriginal(request, DIALECTS[this.#options.proxy], asked);
    if (!original.ok) {
      this.#misread(response, original.error);
      return;
    }
    const payment = paymentIn(request);
    const isBeside = payment !== undefined && this.#payments.has(payment);
    if (payment !== undefined) this.#note(payment, response);
    this.#ask(original.value, response, { manner: this.#manner, isBeside });
  }

  /** Without a payment or a sign-in, for which nothing could be had here. */
  #answer(request: IncomingMessage, response: ServerResponse, asked: AskedOriginally): void {
    const original = readOriginal(request, DIALECTS[this.#options.proxy], asked);
    if (!original.ok) {
      this.#misread(response, original.error);
      return;
    }
    if (paymentIn(request) !== undefined || request.headers[SIGN_IN_NAME] !== undefined) {
      writeAnswer(response, errorAnswer(404, "nothing is sold here"));
      return;
    }
    const manner: Manner = { ...this.#manner, answers: "final" };
    this.#ask(original.value, response, { manner, isBeside: false });
  }

  #ask(original: OriginalRequest, response: ServerResponse, terms: CheckTerms): void {
    const { gateway } = this.#options;
    const { ground } = gateway.work.generation.siteOf(original);
    gateway.handleCheck(new CheckVisitor(original, response, terms, ground));
  }

  #note(payment: string, response: ServerResponse): void {
    this.#payments.set(payment, (this.#payments.get(payment) ?? 0) + 1);
    response.once("close", () => {
      const left = (this.#payments.get(payment) ?? 1) - 1;
      if (left > 0) this.#payments.set(payment, left);
      else this.#payments.delete(payment);
    });
  }

  #held({ rawHeaders }: IncomingMessage): Answer {
    const id = valueOf(rawHeaders, HELD.toLowerCase()) ?? "";
    const answer = this.#manner.held.take(id);
    return answer ?? errorAnswer(500, "there is no answer of this name");
  }

  #report({ rawHeaders }: IncomingMessage): Answer {
    const id = valueOf(rawHeaders, REPORT.toLowerCase()) ?? "";
    const status = valueOf(rawHeaders, "x-402-status") ?? "";
    const { passes } = this.#manner;
    if (passes === null) {
      this.#say("a report came although sidecar.delivery is not `reported`", {});
      return errorAnswer(404, "nobody waits for reports");
    }
    if (!/^[0-9]{3}$/.test(status)) return errorAnswer(400, "a report has a status");
    // Of a request whose client left before it was answered, nginx has none yet.
    const isKnown = passes.report(id, status.startsWith("0") ? CLIENT_LEFT : Number(status));
    return isKnown ? NOTED : errorAnswer(404, "there is no open pass of this name");
  }

  /** The proxy is not set up as it has to be: nothing passes, whatever was asked for. */
  #misread(response: ServerResponse, detail: string): void {
    this.#say("a check cannot be read: compare the proxy with its recipe", { detail });
    writeAnswer(response, errorAnswer(400, `this check cannot be read: ${detail}`));
  }

  #say(message: string, facts: Readonly<Record<string, unknown>>): void {
    const now = performance.now();
    if (now - (this.#saidAt.get(message) ?? Number.NEGATIVE_INFINITY) < SAY_PAUSE_MS) return;
    this.#saidAt.set(message, now);
    this.#options.logger.warn(facts, message);
  }
}

/** As nginx logs it. */
const CLIENT_LEFT = 499;
const SIGN_IN_NAME = SIGN_IN_HEADER.toLowerCase();
const CLOSE = ["Connection", "close"];
const NOTED: Answer = { status: 204, lines: [], body: null };

function askedBehind(prefix: string, { method = "", url = "" }: IncomingMessage): AskedOriginally {
  return { method, uri: url.slice(prefix.length) };
}

/** An empty one is none. */
function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"] ?? "0";
  return headers["transfer-encoding"] !== undefined || !/^0+$/.test(length);
}

/** As it was written, in whichever envelope. */
function paymentIn({ rawHeaders }: IncomingMessage): string | undefined {
  const newer = valueOf(rawHeaders, PAYMENT_NAMES[X402_VERSION_2]);
  return newer ?? valueOf(rawHeaders, PAYMENT_NAMES[X402_VERSION]);
}
