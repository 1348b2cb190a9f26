/**
 * Certificates that this process is told, for the listeners that have none of their own: which one a client gets, by
 * the name that it asks for, and what an authority gets that looks whether a name is ours (RFC 8555, RFC 8737).
 */
import type { Socket } from "node:net";
import { createSecureContext, createServer, type SecureContext, type Server } from "node:tls";
import {
  NO_CERTIFICATES,
  type ToldCertificate,
  type ToldCertificates,
} from "../../certificates/told.ts";
import type { InboundRequest, InboundResponse } from "../message/inbound.ts";
import { readHello } from "./hello.ts";
import { challengeOptions, secureContext, type KeyPair } from "./tls.ts";

const CHALLENGE_PATH = "/.well-known/acme-challenge/";
/** What an authority's connection agrees on and no other's; as a ClientHello has it, behind its length. */
const CHALLENGE_PROTOCOL = "acme-tls/1";
const CHALLENGE_OFFER = Buffer.from(`\x0a${CHALLENGE_PROTOCOL}`);

export class HeldCertificates {
  readonly #listeners = new Set<(first: KeyPair) => void>();
  #told = NO_CERTIFICATES;
  #contexts: ReadonlyMap<string, Context> = new Map();
  #challenges: ReadonlyMap<string, SecureContext> = new Map();
  #answers: ReadonlyMap<string, string> = new Map();
  #challenged: Server | undefined;

  /** From here on these are served; connections go on with what they have. */
  tell(told: ToldCertificates): void {
    const before = this.#contexts;
    const contexts = told.certificates.map((each) => {
      const known = before.get(each.domain);
      return [each.domain, known?.pair.cert === each.cert ? known : contextOf(each)] as const;
    });
    this.#contexts = new Map(contexts);
    const { challenges } = told;
    this.#answers = new Map(
      challenges.flatMap((each) =>
        each.kind === "http-01" ? [[`${CHALLENGE_PATH}${each.token}`, each.answer]] : [],
      ),
    );
    this.#challenges = new Map(
      challenges.flatMap((each) =>
        each.kind === "tls-alpn-01" ? [[each.domain, contextOf(each).context]] : [],
      ),
    );
    const [first] = told.certificates;
    const isNew = first !== undefined && first.cert !== this.#told.certificates[0]?.cert;
    this.#told = told;
    if (isNew) for (const use of this.#listeners) use(first);
  }

  /** Hears of the certificate of whoever names none of ours, now and whenever it is another one. */
  onFirst(use: (first: KeyPair) => void): void {
    this.#listeners.add(use);
    const [first] = this.#told.certificates;
    if (first !== undefined) use(first);
  }

  /** For the name that a client asks for; undefined: the one that {@link onFirst} has told. */
  of(name: string): SecureContext | undefined {
    return this.#contexts.get(name.toLowerCase())?.context;
  }

  /** Answers an authority that looks by HTTP; false: the request is somebody else's. */
  answers(request: InboundRequest, response: InboundResponse): boolean {
    if (this.#answers.size === 0) return false;
    const answer = this.#answers.get(request.url ?? "");
    if (answer === undefined) return false;
    const body = Buffer.from(answer);
    const lines = ["Content-Type", "application/octet-stream", "Content-Length", `${body.length}`];
    response.writeHead(200, lines);
    response.end(body);
    return true;
  }

  /**
   * While an authority is to look by TLS, each connection is asked first what it offers: the authority's gets the
   * certificate that it wants to see, in a server of its own, and all others go on to `pass`.
   */
  divert(socket: Socket, pass: (socket: Socket) => void): void {
    if (this.#challenges.size === 0) return pass(socket);
    void this.#divertBy(socket, pass);
  }

  async #divertBy(socket: Socket, pass: (socket: Socket) => void): Promise<void> {
    const hello = await readHello(socket);
    if (hello === undefined) return;
    if (!hello.includes(CHALLENGE_OFFER)) return pass(socket);
    this.#challenged ??= this.#openChallenged();
    this.#challenged.emit("connection", socket);
  }

  #openChallenged(): Server {
    const options = {
      ...challengeOptions([CHALLENGE_PROTOCOL]),
      SNICallback: (name: string, done: (error: Error | null, found?: SecureContext) => void) =>
        done(null, this.#challenges.get(name.toLowerCase())),
    };
    // The handshake is all that it comes for.
    const server = createServer(options, (socket) => socket.destroySoon());
    server.on("tlsClientError", (_error, socket) => socket.destroy());
    return server;
  }
}

interface Context {
  readonly pair: KeyPair;
  readonly context: SecureContext;
}

/** Sessions are sealed by the server's keys, whichever certificate they began with. */
function contextOf({ cert, key }: ToldCertificate): Context {
  const pair = { cert, key };
  return { pair, context: createSecureContext(secureContext(pair)) };
}
