/**
 * The YAML language server as an editor runs it: a process that speaks the Language Server Protocol (JSON-RPC 2.0
 * behind `Content-Length` headers) on its standard input and output.
 */
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const SERVER = require.resolve("yaml-language-server/bin/yaml-language-server");
/** How long an answer may take, milliseconds. */
const PATIENCE_MS = 20_000;

export interface Diagnostic {
  readonly message: string;
  /** 0-based. */
  readonly range: { readonly start: { readonly line: number; readonly character: number } };
}

export interface Completion {
  readonly label: string;
  /** Plain text, or what the protocol calls marked-up content. */
  readonly documentation?: string | { readonly value: string };
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/** One editor with one language server behind it. */
export class YamlEditor {
  readonly #server: ChildProcessWithoutNullStreams;
  readonly #answers = new Map<number, (message: Message) => void>();
  readonly #diagnosed = new Map<string, (found: readonly Diagnostic[]) => void>();
  #received = Buffer.alloc(0);
  #lastId = 0;

  private constructor(server: ChildProcessWithoutNullStreams) {
    this.#server = server;
    server.stdout.on("data", (chunk: Buffer) => this.#read(chunk));
    server.stderr.resume();
  }

  static async start(): Promise<YamlEditor> {
    const editor = new YamlEditor(spawn(process.execPath, [SERVER, "--stdio"]));
    await editor.#ask("initialize", {
      processId: process.pid,
      rootUri: null,
      capabilities: {
        textDocument: { completion: { completionItem: { documentationFormat: ["markdown"] } } },
      },
    });
    editor.#tell("initialized", {});
    return editor;
  }

  /** Opens a text under a path, which need not exist, and resolves with what the server finds wrong. */
  async open(path: string, text: string): Promise<readonly Diagnostic[]> {
    const uri = pathToFileURL(path).href;
    const found = withinPatience<readonly Diagnostic[]>(`diagnostics of ${path}`, (resolve) => {
      this.#diagnosed.set(uri, resolve);
    });
    const textDocument = { uri, languageId: "yaml", version: 1, text };
    this.#tell("textDocument/didOpen", { textDocument });
    return await found;
  }

  /** What is offered at a place, 0-based, of a text that is open. */
  async complete(path: string, line: number, character: number): Promise<readonly Completion[]> {
    const result = await this.#ask("textDocument/completion", at(path, line, character));
    const list = result as { items?: readonly Completion[] } | readonly Completion[] | null;
    return list === null
      ? []
      : "items" in list
        ? (list.items ?? [])
        : (list as readonly Completion[]);
  }

  /** What is shown about the word at a place, 0-based; "" for nothing. */
  async hover(path: string, line: number, character: number): Promise<string> {
    const result = await this.#ask("textDocument/hover", at(path, line, character));
    return JSON.stringify((result as { contents?: unknown } | null)?.contents ?? "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const gone = once(this.#server, "exit");
    await this.#ask("shutdown", null);
    this.#tell("exit", null);
    await gone;
  }

  async #ask(method: string, params: unknown): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = withinPatience<Message>(method, (resolve) => this.#answers.set(id, resolve));
    this.#send({ id, method, params });
    const { result, error } = await answer;
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  #tell(method: string, params: unknown): void {
    this.#send({ method, params });
  }

  #send(message: Message): void {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    this.#server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  }

  #read(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    for (;;) {
      const head = this.#received.indexOf("\r\n\r\n");
      const length = Number(
        /Content-Length: (\d+)/.exec(this.#received.toString("latin1", 0, head))?.[1],
      );
      const end = head + 4 + length;
      if (head < 0 || this.#received.length < end) return;
      const body = this.#received.toString("utf8", head + 4, end);
      this.#received = this.#received.subarray(end);
      this.#receive(JSON.parse(body) as Message);
    }
  }

  #receive({ id, method, params, ...rest }: Message): void {
    if (method === "textDocument/publishDiagnostics") {
      const { uri, diagnostics } = params as { uri: string; diagnostics: readonly Diagnostic[] };
      this.#diagnosed.get(uri)?.(diagnostics);
    } else if (method !== undefined && id !== undefined) {
      // The server's own questions: its settings (none), capabilities it would register.
      const sections = (params as { items?: readonly unknown[] } | undefined)?.items;
      this.#send({ id, result: sections?.map(() => null) ?? null });
    } else if (id !== undefined) {
      this.#answers.get(id)?.(rest);
      this.#answers.delete(id);
    }
  }
}

function at(path: string, line: number, character: number) {
  return { textDocument: { uri: pathToFileURL(path).href }, position: { line, character } };
}

async function withinPatience<Value>(
  what: string,
  start: (resolve: (value: Value) => void) => void,
): Promise<Value> {
  const { promise, resolve, reject } = Promise.withResolvers<Value>();
  const timer = setTimeout(() => reject(new Error(`no answer: ${what}`)), PATIENCE_MS);
  start(resolve);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}
