import {
  parseConfig,
  type Config,
  type Environment,
  type PricedAction,
} from "../../../src/config/config.ts";

export const KEY = `0x${"5a".repeat(32)}`;
export const FILE_KEY = "6b".repeat(32);
export const TOKEN = "a-very-secret-token";

const FILES: Readonly<Record<string, string>> = {
  "/run/secrets/key": `${FILE_KEY}\n`,
  "/run/secrets/duration": " 45s\n",
};

/** A fixed environment, so that what is said about a file never depends on the machine. */
export const environment: Environment = {
  env: {
    KEY,
    TOKEN,
    ZERO_KEY: `0x${"00".repeat(32)}`,
    MALFORMED_KEY: "not a key, but still a secret",
    EMPTY: "",
    BARE_NUMBER: "0.02",
    FROM_FILE_FILE: "/run/secrets/duration",
    UNREADABLE_FILE: "/run/secrets/none",
  },
  readFile: (path) => {
    const text = FILES[path];
    if (text === undefined) throw new Error(`no such file: ${path}`);
    return text;
  },
};

export const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
export const OTHER_PAYEE = "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E";

/** A gateway without routes, and the least of them. */
export const GATEWAY = `
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "${PAYEE}"
accept: [base-sepolia]
facilitator: https://facilitator.example.com/
unmatched: deny
`;
export const ROUTES = `
routes:
  GET /weather: $0.01
`;

export function parse(text: string): Config {
  const result = parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...environment });
  if (!result.ok) throw new Error(result.problems.map((each) => each.message).join("\n"));
  return result.config;
}

export function priced(config: Config, key: string): PricedAction {
  const action = config.routes.find((route) => route.key === key)?.action;
  if (action?.kind !== "priced") throw new Error(`${key} is not priced`);
  return action;
}
