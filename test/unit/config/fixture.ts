import {
  parseConfig,
  type Config,
  type Environment,
  type PricedAction,
} from "../../../src/config/config.ts";
import {
  EXPIRED,
  FIRST,
  LOCKED_KEY,
  NAMELESS,
  SECOND,
  WEAK,
  WILD,
} from "../../support/listener-tls.ts";
import {
  AUTHORITY,
  GATEWAY_CERTIFICATE,
  GATEWAY_KEY,
  BACKEND_KEY,
} from "../../support/upstream-tls.ts";

export const KEY = `0x${"5a".repeat(32)}`;
export const FILE_KEY = "6b".repeat(32);
export const TOKEN = "a-very-secret-token";

/** Three Solana keypairs: each seed is one byte, repeated. */
export const SOLANA_ADDRESS = "uY46ibBrA5pEsx4z8iiQ6BpNeBuMR6weo4u2ubREB9q";
/** As a wallet exports it. */
export const SOLANA_BASE58 =
  "2omt37n9Gg1v7dhZnbaxMFyvvYramkgJDwMUWPMb2XsmYeekXTBihv5hgjg2wP7N2mi3cMh2ZJFgUCARPzsgPSHm";
export const SOLANA_HEX =
  "5a".repeat(32) + "0d7550754e0800a5d237eef5826035766b9b3e5a15868a940ab289958788e3b0";
export const OTHER_SOLANA_HEX =
  "6b".repeat(32) + "8320a51977d8c38ca8a4927c670df5821e449761945e15e9efb26a1509d230ea";

/** As `solana-keygen` writes it. */
export function keypairFile(hex: string): string {
  return JSON.stringify([...Buffer.from(hex, "hex")]);
}

const LISTED = "0x857b06519E91e3A54538791bDbb0E22373e36b66";

const FILES: Readonly<Record<string, string>> = {
  "/etc/coinslot/denied.csv": `address,why\neip155:1:${LISTED},a list\n`,
  "/etc/coinslot/allowed.txt": `# customers\n${SOLANA_ADDRESS}\n`,
  "/etc/coinslot/emptied.txt": "\n",
  "/etc/coinslot/nobody.txt": "# nobody\n",
  "/etc/coinslot/torn.txt": ["", ...Array.from({ length: 8 }, () => `${LISTED}0`)].join("\n"),
  "/run/secrets/key": `${FILE_KEY}\n`,
  "/run/secrets/duration": " 45s\n",
  "/run/secrets/solana.json": `${keypairFile(OTHER_SOLANA_HEX)}\n`,
  "/run/listener/tls.crt": FIRST.cert,
  "/run/listener/tls.key": FIRST.key,
  "/etc/coinslot/tls.crt": FIRST.cert,
  "/etc/coinslot/tls.key": FIRST.key,
  "/run/listener/turned.crt": SECOND.cert + FIRST.cert,
  "/run/listener/second.crt": SECOND.cert,
  "/run/listener/second.key": SECOND.key,
  "/run/listener/wild.crt": WILD.cert,
  "/run/listener/wild.key": WILD.key,
  "/run/listener/nameless.crt": NAMELESS.cert,
  "/run/listener/nameless.key": NAMELESS.key,
  "/run/listener/expired.crt": EXPIRED.cert,
  "/run/listener/expired.key": EXPIRED.key,
  "/run/listener/weak.crt": WEAK.cert,
  "/run/listener/weak.key": WEAK.key,
  "/run/listener/locked.key": LOCKED_KEY,
  "/run/listener/torn.crt": FIRST.cert.replace("MII", "AAA"),
  "/run/open/key": `${FILE_KEY}\n`,
  "/run/closed/key": `${FILE_KEY}\n`,
  "/run/open/tls.key": FIRST.key,
  "/run/open/gateway.key": GATEWAY_KEY,
  "/run/tls/ca.pem": AUTHORITY,
  "/run/tls/gateway.pem": GATEWAY_CERTIFICATE,
  "/run/tls/gateway.key": GATEWAY_KEY,
  "/run/tls/other.key": BACKEND_KEY,
  "/run/tls/broken.pem": AUTHORITY.replace("MII", "AAA"),
  "/etc/coinslot/internal-ca.pem": AUTHORITY,
  "/run/api/openapi.yaml": "openapi: 3.1.0\ninfo: { title: Backend, version: '2' }\npaths: {}\n",
  "/run/api/swagger.json": '{"swagger":"2.0","paths":{}}',
  "/run/api/list.yaml": "- openapi: 3.1.0\n",
  "/run/api/version.yaml": "openapi: 4.0.0\n",
  "/run/api/torn.json": '{"openapi":"3.1.0",',
};

/** A fixed environment, so that what is said about a file never depends on the machine. */
export const environment: Environment = {
  env: {
    KEY,
    TOKEN,
    ZERO_KEY: `0x${"00".repeat(32)}`,
    MALFORMED_KEY: "not a key, but still a secret",
    SOLANA_KEY: SOLANA_BASE58,
    SOLANA_JSON: keypairFile(SOLANA_HEX).replaceAll(",", ", "),
    // The public half of another keypair.
    SOLANA_MIXED: keypairFile(SOLANA_HEX.slice(0, 64) + OTHER_SOLANA_HEX.slice(64)),
    SOLANA_MIXED_BASE58: `${SOLANA_BASE58.slice(0, -1)}n`,
    SOLANA_SEED: "75hbt6uvDqjPZ9WgFtMhBnTeyHw7cinoHiz4FD2vEz2d",
    SOLANA_SEED_HEX: SOLANA_HEX.slice(0, 64),
    SOLANA_SEED_JSON: keypairFile(SOLANA_HEX.slice(0, 64)),
    SOLANA_SHORT_JSON: keypairFile(SOLANA_HEX.slice(0, 126)),
    SOLANA_LARGE_JSON: keypairFile(SOLANA_HEX).replace("[90", "[346"),
    SOLANA_HEX,
    SOLANA_WORDS: Array.from({ length: 12 }, () => "abandon").join(" "),
    WEBHOOK_SECRET: `whsec_${"A".repeat(43)}=`,
    EMPTY: "",
    BARE_NUMBER: "0.02",
    CDP_KEY: Buffer.from(SOLANA_HEX, "hex").toString("base64"),
    OPEN_KEY_FILE: "/run/open/key",
    FROM_FILE_FILE: "/run/secrets/duration",
    UNREADABLE_FILE: "/run/secrets/none",
  },
  now: () => Date.UTC(2026, 0, 1),
  modeOf: (path) => {
    if (FILES[path] === undefined) return path === "/run/closed" ? 0o040700 : 0o040755;
    return /^\/run\/(?:open|closed|secrets)\//.test(path) ? 0o100644 : 0o100600;
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
