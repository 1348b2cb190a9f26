/** `coinslot routes FILE [METHOD URL]`: all rules in the order in which they win, or why one of them does. */
import { readFileSync } from "node:fs";
import { explain } from "../../diagnosis/explanation.ts";
import { sitesOf } from "../../config/config.ts";
import { loadOrExplain } from "../load.ts";
import { toJson } from "../payments/payment-text.ts";
import { explanationPage, rulesText } from "./routes-text.ts";
import { explanationView, siteView } from "./routes-view.ts";
import { wantsColor } from "../terminal.ts";

export interface RoutesOptions {
  /** Raw `name, value` pairs. */
  readonly header: readonly string[];
  /** A file with the body of that request. */
  readonly body?: string;
  /** Who would ask: an EVM or a Solana address. */
  readonly payer?: string;
  readonly preflight?: boolean;
  readonly json?: boolean;
}

/** Both or none. */
export interface RoutesAsked {
  readonly method: string | undefined;
  readonly url: string | undefined;
}

/** Who asks a preflight, where no header says it. */
const SOME_ORIGIN = "https://origin.example";

/** Resolves with the exit code: 1 where the file is refused, or has no routes. */
export async function routes(
  file: string,
  { method, url }: RoutesAsked,
  { header, body: bodyFile, payer, preflight, json }: RoutesOptions,
): Promise<number> {
  const config = await loadOrExplain(file, { json });
  if (config === undefined) return 1;
  if (config.routes.length === 0) {
    process.stderr.write(`${file}: there are no routes, this is a facilitator and no gateway\n`);
    return 1;
  }
  const color = wantsColor(process.stdout);
  if (method === undefined || url === undefined) {
    const [own, ...others] = sitesOf(config);
    const hosts = others.map((each) => ({ host: each.site, ...siteView(each) }));
    const view = { file, ...siteView(own), ...(hosts.length > 0 && { hosts }) };
    process.stdout.write(json ? toJson(view) : rulesText(view, color));
    return 0;
  }
  let body: Buffer | undefined;
  try {
    body = bodyFile === undefined ? undefined : readFileSync(bodyFile);
  } catch {
    process.stderr.write(`${bodyFile}: cannot be read\n`);
    return 1;
  }
  const asked = preflight
    ? { method: "OPTIONS", url, headers: preflightHeaders(method, header) }
    : { method, url, headers: header, body, payer };
  const view = explanationView(explain(config, asked));
  process.stdout.write(json ? toJson(view) : explanationPage(view, { color }));
  return 0;
}

function preflightHeaders(method: string, header: readonly string[]): readonly string[] {
  const names = new Set(
    header.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase()),
  );
  const given = [
    ["Origin", SOME_ORIGIN],
    ["Access-Control-Request-Method", method],
    ["Access-Control-Request-Headers", "x-payment,access-control-expose-headers"],
  ] as const;
  return [...header, ...given.filter(([name]) => !names.has(name.toLowerCase())).flat()];
}
