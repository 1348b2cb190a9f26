/**
 * Mistakes as data: each is planted into a file without one, and then that is said of it, at its place and with what to
 * do about it, and nothing else. A file of this folder is a group of them, with an empty line between:
 *
 *     what somebody did
 *     a text → what is written in its place, with « and » around what the problem points at
 *     severity code: a part of what is said to do about it
 *
 * There may be several replacements; ⏎, ⇥ and ␣ stand for a line break, a tab and a space at an end.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface Mistake {
  readonly what: string;
  readonly group: string;
  /** Texts and what is written in their place, in this order. */
  readonly edits: readonly (readonly [from: string, to: string])[];
  readonly severity: string;
  readonly code: string;
  readonly mend: string;
}

const FOLDER = import.meta.dirname;

/** A gateway without a fault, of which nothing is to be said at all. */
export const SOUND = `
listen: [":8402", { address: "127.0.0.1:8403" }]
publicUrl: https://api.example.com
trustedProxies: [10.0.0.0/8]
limits: { header: 32KiB, inFlight: 100, unpaidPerIp: 50/s, bodyTimeout: 5m }
shutdown: { within: 30s, delay: 1s }
workers: 2
admin: 127.0.0.1:9402
upstreams:
  api:
    targets: [{ url: http://10.0.0.11:3000, weight: 3 }, http://10.0.0.12:3000]
    balance: round-robin
    health: { path: /healthz, interval: 10s, timeout: 1s }
    timeouts: { connect: 2s }
    retry: { attempts: 2, methods: [GET, HEAD], on: [502] }
    headers: { set: { X-Site: main }, remove: [X-Powered-By] }
  llm:
    targets: [https://llm.example.com]
    host: preserved.example.com
payTo: { evm: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", solana: 2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4 }
accept: [base, { network: avalanche, asset: USDC }, solana]
assets:
  EURC:
    avalanche:
      address: "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD"
      decimals: 6
      eip712: { name: Euro Coin, version: "2" }
facilitator:
  listen: 127.0.0.1:4021
  auth: { bearer: "\${TOKEN}" }
  embedded:
    networks:
      base: { rpc: [https://mainnet.base.org], signers: [env:KEY], confirmations: 1 }
      solana: { rpc: [https://rpc.example.com], signers: [env:SOLANA_KEY], commitment: confirmed }
    allow: { payTo: ["0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E"], assets: [] }
  remote: [{ url: https://facilitator.example.com, timeout: 10s }]
  rpc: { avalanche: [https://rpc.example.org] }
routes:
  GET /health: { price: free, upstream: api }
  GET /weather: { price: $0.01, description: Weather, upstream: api, mimeType: text/plain }
  POST /chat: { price: $0.02, description: Chat, upstream: llm, maxTimeoutSeconds: 90 }
  GET /euros/:id: { description: Euros, upstream: api, accept: [{ network: base, amount: "10000" }, { network: avalanche, asset: EURC, amount: "9300" }] }
  GET /tokens: { price: { amount: "100", asset: USDC }, description: Tokens, upstream: api }
  /admin/*: deny
unmatched: deny
store: sqlite:./data/coinslot.db
logging: { level: info, format: json }
cors: { origins: [https://app.example.com] }
support: help@example.com
`;

/** All of them, or those of one group. */
export function mistakes(group?: string): readonly Mistake[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".txt") && (group ?? name) === name)
    .flatMap((name) =>
      readFileSync(join(FOLDER, name), "utf8")
        .trim()
        .split(/\n{2,}/)
        .map((block) => read(block, name)),
    );
}

function read(block: string, group: string): Mistake {
  const [what = "", ...lines] = block.split("\n");
  const [, severity = "", code = "", mend = ""] =
    /^(\w+) ([\w-]+): (.+)$/.exec(lines.pop() ?? "") ?? [];
  const edits = lines.map((line): [string, string] => {
    const [from, to] = line
      .replaceAll("⏎", "\n")
      .replaceAll("⇥", "\t")
      .split(/ → ?/)
      .map((text) => text.replaceAll("␣", " "));
    return [from ?? "", to ?? ""];
  });
  return { what, group, edits, severity, code, mend };
}

export interface Planted {
  readonly text: string;
  /** Where the problem is to be: line and column count from 1. */
  readonly place: { readonly line: number; readonly column: number; readonly length: number };
}

/** Throws where a text to replace is not there, or the place is not marked. */
export function plant({ what, edits }: Pick<Mistake, "what" | "edits">): Planted {
  const marked = edits.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`${what}: there is no ${from}`);
    return text.replace(from, () => to);
  }, SOUND);
  const start = marked.indexOf("«");
  const length = marked.indexOf("»") - start - 1;
  if (start < 0 || length < 0) throw new Error(`${what}: nothing is marked`);
  const before = marked.slice(0, start).split("\n");
  const place = { line: before.length, column: (before.at(-1)?.length ?? 0) + 1, length };
  return { text: marked.replace(/[«»]/g, ""), place };
}
