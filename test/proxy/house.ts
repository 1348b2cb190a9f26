/**
 * The whole product in this process, from YAML text to an open port, before a backend of bytes: every path
 * is free but those under `/paid/`, which a facilitator sells that says yes to everything.
 */
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { start, type Running } from "../../src/app.ts";
import { formatProblems, parseConfig } from "../../src/config/config.ts";
import { startScriptedFacilitator } from "../support/scripted-facilitator.ts";
import { certificate, privateKey } from "../unit/http1/tls-identity.ts";
import type { X402Version } from "../../src/x402/x402.ts";
import { Backend } from "./backend.ts";
import { AUTHORITY, type Place } from "./client.ts";
import { Purse, sayYes } from "./purse.ts";
import type { Line } from "./wire.ts";

/** Largest request body that the gateway takes, bytes: above the largest of the suite. */
const BODY_LIMIT = "128MiB";

const PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

export interface HouseOptions {
  /** How the gateway listens. Default: plain HTTP/1.1. */
  readonly isTls?: boolean;
  /** Backends that the one upstream has. Default: 1. */
  readonly targets?: number;
  /** More YAML of the upstream, in flow style: `timeouts: { idle: 1s }`. */
  readonly upstream?: string;
}

/** The configuration but for the backend; for a process of its own too. */
export function houseYaml(
  { isTls = false, upstream = "" }: HouseOptions,
  places: {
    readonly folder: string;
    readonly facilitator: string;
    readonly ports: readonly number[];
  },
): string {
  const { folder, facilitator, ports } = places;
  const tls = `[{ address: "127.0.0.1:0", tls: { cert: ${folder}/tls.crt, key: ${folder}/tls.key } }]`;
  const targets = ports.map((port) => `http://127.0.0.1:${port}`).join(", ");
  return `
listen: ${isTls ? tls : "127.0.0.1:0"}
publicUrl: http://${AUTHORITY}
upstreams:
  default: { targets: [${targets}]${upstream === "" ? "" : `, ${upstream}`} }
payTo: "${PAY_TO}"
accept: [base-sepolia]
facilitator: ${facilitator}
unmatched: free
limits: { body: ${BODY_LIMIT} }
shutdown: 1s
store: sqlite:${folder}/ledger.db
logging: { level: ${process.env["COINSLOT_TEST_LOG"] ?? "silent"} }
routes:
  /paid/*: { price: $0.01, description: Goods, mimeType: text/plain }
`;
}

export class House implements AsyncDisposable {
  readonly backend: Backend;
  /** The gateway. */
  readonly front: Place;
  readonly running: Running;
  readonly #closing: AsyncDisposableStack;
  readonly #purse: Purse;

  private constructor(parts: {
    backend: Backend;
    front: Place;
    running: Running;
    closing: AsyncDisposableStack;
  }) {
    this.backend = parts.backend;
    this.front = parts.front;
    this.running = parts.running;
    this.#purse = new Purse(parts.front);
    this.#closing = parts.closing;
  }

  static async open(options: HouseOptions = {}): Promise<House> {
    await using closing = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), "coinslot-proxy-"));
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    await writeIdentity(folder);
    const backend = closing.use(await Backend.open(options.targets ?? 1));
    const facilitator = closing.use(await startScriptedFacilitator(sayYes));
    const yaml = houseYaml(options, { folder, facilitator: facilitator.url, ports: backend.ports });
    const parsed = parseConfig(yaml, {
      file: "house.yaml",
      env: {},
      readFile: (path) => readFileSync(path, "utf8"),
    });
    if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
    const running = await start(parsed.config, "test");
    closing.defer(() => running.close({ atOnce: true }));
    const port = running.addresses.gateway[0]?.port ?? 0;
    const front = { port, isTls: options.isTls ?? false };
    return new House({ backend, front, running, closing: closing.move() });
  }

  /** The backend without anything before it. */
  get direct(): Place {
    return { port: this.backend.ports[0] ?? 0 };
  }

  /** The line that pays for one request under `/paid/`, in that version. */
  payment(target: string, version: X402Version): Promise<Line> {
    return this.#purse.payment(target, version);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#closing.disposeAsync();
  }
}

/** The listener's certificate and key, as files. */
export async function writeIdentity(folder: string): Promise<void> {
  await writeFile(join(folder, "tls.crt"), certificate);
  await writeFile(join(folder, "tls.key"), privateKey);
}
