/** What `doctor` is tried on: configuration files, the command run here, and its findings as values. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request, type IncomingHttpHeaders, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { runHere } from "./run-here.ts";

export interface Told {
  readonly section: string;
  readonly subject: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  readonly fix: string | null;
}

interface Report {
  readonly code: number | null;
  readonly ok: boolean;
  readonly findings: readonly Told[];
  readonly clients: readonly Readonly<Record<string, unknown>>[];
}

export class DoctorStage {
  readonly folder: string;
  readonly closing = new AsyncDisposableStack();

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async open(): Promise<DoctorStage> {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-doctor-"));
    const stage = new DoctorStage(folder);
    stage.closing.defer(() => rm(folder, { recursive: true, force: true }));
    return stage;
  }

  /** Writes a file of the configuration's folder, and resolves with its path. */
  async write(name: string, text: string): Promise<string> {
    const path = join(this.folder, name);
    await writeFile(path, text);
    return path;
  }

  /** An HTTP server; resolves with its origin. */
  async serve(handler: RequestListener): Promise<string> {
    const server = createServer(handler);
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    this.closing.defer(() => drain(server, AbortSignal.abort()));
    return `http://127.0.0.1:${port}`;
  }

  /** A proxy before `origin()`, which changes what it passes on as `changes()` says at the moment. */
  proxy(origin: () => string, changes: () => ProxyChanges): Promise<string> {
    return this.serve((incoming, response) => {
      const { request: ofRequest, answer: ofAnswer, status: ofStatus, body } = changes();
      const { method = "GET", url = "/" } = incoming;
      const headers = ofRequest?.(incoming.headers) ?? incoming.headers;
      const outgoing = request(origin() + url, { method, headers }, (answer) => {
        const { "content-length": _, ...lines } = ofAnswer?.(answer.headers) ?? answer.headers;
        const status = answer.statusCode ?? 0;
        response.writeHead(ofStatus?.(status) ?? status, lines);
        if (body === undefined) answer.pipe(response);
        else response.end(body);
      });
      outgoing.once("error", () => response.destroy());
      outgoing.end();
    });
  }

  /** `doctor --json` of a configuration. */
  async examine(yaml: string, env: Readonly<Record<string, string>> = {}): Promise<Report> {
    const file = await this.write("gateway.yaml", yaml);
    const { code, stdout, stderr } = await runHere(["doctor", file, "--json"], env);
    if (stdout === "") throw new Error(stderr);
    return { code, ...JSON.parse(stdout) };
  }
}

export interface ProxyChanges {
  readonly request?: (headers: IncomingHttpHeaders) => IncomingHttpHeaders;
  readonly answer?: (headers: IncomingHttpHeaders) => IncomingHttpHeaders;
  readonly status?: (status: number) => number;
  readonly body?: string;
}

/** `fail subject: message`, of those that are not all right. */
export function troubles({ findings }: Pick<Report, "findings">): readonly string[] {
  return findings
    .filter(({ status }) => status !== "ok")
    .map(({ status, subject, message }) => `${status} ${subject}: ${message}`);
}

/** `status message` of everything about a subject. */
export function about({ findings }: Pick<Report, "findings">, subject: RegExp): readonly string[] {
  return findings
    .filter((each) => subject.test(each.subject))
    .map(({ status, message }) => `${status} ${message}`);
}

/** The fix of the one finding whose message matches. */
export function fixOf({ findings }: Pick<Report, "findings">, message: RegExp): string | null {
  return findings.find((each) => message.test(each.message))?.fix ?? null;
}
