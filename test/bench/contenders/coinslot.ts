/** The whole product as its users run it: `coinslot serve FILE` as a process of its own. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startCommand, type Running } from "../process.ts";
import { ROOT } from "../report.ts";
import { NETWORK, PAY_TO, PRICED_ROUTES } from "./wares.ts";

/** `listener` is the one to measure. */
export function startCoinslot(
  folder: string,
  config: string,
  listener: "gateway" | "facilitator",
  env: Readonly<Record<string, string>> = {},
): Promise<Running> {
  const file = join(folder, "coinslot.yaml");
  writeFileSync(file, config);
  return startCommand({
    command: process.execPath,
    args: [join(ROOT, "src/main.ts"), "serve", file],
    serves: new RegExp(`^ *${listener} +(http://[^/\\s]+)`, "m"),
    env,
  });
}

/** A gateway with 98 priced routes and two free ones; metrics on, logging as by default. */
export function gatewayConfig(
  folder: string,
  backend: string,
  facilitator = "http://127.0.0.1:9",
): string {
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
