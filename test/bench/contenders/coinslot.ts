/** The whole product as its users run it: `coinslot serve FILE` as a process of its own. */
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { startCommand, type Running } from "../process.ts";
import { ROOT } from "../report.ts";
import { NETWORK, PAY_TO, PRICED_ROUTES } from "./wares.ts";

/** A checkout of coinslot with its packages. */
export interface Version {
  readonly name: string;
  readonly root: string;
}

const OURS: Version = { name: "coinslot", root: ROOT };

/** The one that the rounds of another version alternate with: `npm run bench:paid -- --before FOLDER`. */
export const BEFORE: Version | undefined = findBefore();

function findBefore(): Version | undefined {
  const { values } = parseArgs({ options: { before: { type: "string" } }, strict: false });
  const { before } = values;
  return typeof before === "string"
    ? { name: "coinslot before", root: resolve(before) }
    : undefined;
}

/** `listener` is the one to measure. */
export function startCoinslot(
  folder: string,
  config: string,
  listener: "gateway" | "facilitator",
  setting: {
    readonly env?: Readonly<Record<string, string>>;
    readonly version?: Version | undefined;
  } = {},
): Promise<Running> {
  const { env = {}, version: { name, root } = OURS } = setting;
  const file = join(folder, `${name.replaceAll(" ", "-")}.yaml`);
  writeFileSync(file, config);
  return startCommand({
    command: join(root, "node_modules/.bin/node"),
    args: [join(root, "src/main.ts"), "serve", file],
    serves: new RegExp(`^ *${listener} +(http://[^/\\s]+)`, "m"),
    env,
  });
}

/**
 * A gateway with 98 priced routes and two free ones; metrics on, logging as by default. Where the facilitator is gone it
 * asks for no payment.
 */
export function gatewayConfig(folder: string, backend: string, facilitator: string): string {
  return `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
admin: 127.0.0.1:0
upstream: ${backend}
payTo: "${PAY_TO}"
accept: [${NETWORK}]
facilitator: ${facilitator}
unmatched: deny
store: sqlite:${folder}/ledger.db
routes:
  GET /files/*: free
  POST /files/*: free
${PRICED_ROUTES.map((path) => `  GET ${path}: $0.01`).join("\n")}
`;
}
