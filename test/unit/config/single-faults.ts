/**
 * A gateway without a fault, and faults to plant in it: each a text to replace, the replacement, and what is then
 * said, which is that and nothing else.
 */
import type { Problem } from "../../../src/config/config.ts";

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
  GET /euros/:id: { description: Euros, upstream: api, accept: [{ network: avalanche, asset: EURC, amount: "9300" }] }
  GET /tokens: { price: { amount: "100", asset: USDC }, description: Tokens, upstream: api }
  /admin/*: deny
unmatched: deny
store: sqlite:./data/coinslot.db
logging: { level: info, format: json }
cors: { origins: [https://app.example.com] }
support: help@example.com
`;

/**
 * Pairs of which the first leaves unread what the second is about: a map without a key that it needs, a token that is
 * none, a route whose methods are unclear, the second of two keys.
 */
export const SHADOWED: readonly (readonly [string, string])[] = [
  ['address: "127.0.0.1:8403"', "127.0.0.1:9402"],
  ["path: /healthz, ", "timeout: 1s"],
  ["{ network: avalanche, asset: USDC }", "asset: USDC }, solana]"],
  ["      decimals: 6\n", 'asset: EURC, amount: "9300"'],
  ["decimals: 6", 'asset: EURC, amount: "9300"'],
  ['"0xC891EB4c', 'asset: EURC, amount: "9300"'],
  ["  EURC:\n    avalanche:", 'asset: EURC, amount: "9300"'],
  ["GET /weather:", "GET /tokens:"],
  ["GET /tokens:", 'amount: "100"'],
];

interface Planted {
  readonly from: string;
  readonly to: string;
  readonly code: Problem["code"];
}

function planted(from: string, to: string, code: Problem["code"]): Planted {
  return { from, to, code };
}

export const FAULTS: readonly Planted[] = [
  planted("help@example.com", "help at example.com", "bad-value"),
  planted("help@example.com", "https://[", "bad-value"),
  planted("help@example.com", `https://example.com/${"a".repeat(255)}`, "bad-value"),
  planted('":8402"', '":84020"', "bad-value"),
  planted('address: "127.0.0.1:8403"', 'adress: ":8403"', "unknown-key"),
  planted("https://api.example.com", "api.example.com", "bad-value"),
  planted("10.0.0.0/8", "10.0.0.1/8", "bad-value"),
  planted("32KiB", "32KB", "bad-value"),
  planted("inFlight: 100", "inFlight: -1", "bad-value"),
  planted("50/s", "50/day", "bad-value"),
  planted("bodyTimeout: 5m", "bodyTimout: 5m", "unknown-key"),
  planted("delay: 1s", "delay: 1", "bad-type"),
  planted("workers: 2", "workers: many", "bad-value"),
  planted("127.0.0.1:9402", "127.0.0.1:8403", "address-taken"),
  planted("http://10.0.0.11:3000", "10.0.0.11:3000", "bad-value"),
  planted("http://10.0.0.12:3000", "http://10.0.0.12:3000/api", "bad-value"),
  planted("weight: 3", "weight: 0", "bad-value"),
  planted("round-robin", "robin", "bad-value"),
  planted("path: /healthz, ", "", "missing-key"),
  planted("timeout: 1s", "timeout: 11s", "bad-value"),
  planted("methods: [GET,", "methods: [GTE,", "unknown-method"),
  planted("on: [502]", "on: [500]", "bad-value"),
  planted("X-Site", "Content-Length", "bad-header"),
  planted("X-Powered-By", "X Powered By", "bad-value"),
  planted("targets: [https://llm.example.com]", "target: https://llm.example.com", "unknown-key"),
  planted("0x209693Bc6", "0x209693bc6", "bad-checksum"),
  planted("2wKupLR9q6", "2wKupLR9q", "bad-value"),
  planted("accept: [base,", "accept: [bas,", "unknown-network"),
  planted("{ network: avalanche, asset: USDC }", "{ asset: USDC }", "missing-key"),
  planted("asset: USDC }, solana]", "asset: USDX }, solana]", "unknown-asset"),
  planted("      decimals: 6\n", "", "missing-key"),
  planted("decimals: 6", "decimals: six", "bad-value"),
  planted('"0xC891EB4c', '"0xC891Eb4c', "bad-checksum"),
  planted("  EURC:\n    avalanche:", "  EURC:\n    avalanch:", "unknown-network"),
  planted("${TOKEN}", "${TOKEM}", "unset-variable"),
  planted("base: { rpc", "bsae: { rpc", "unknown-network"),
  planted("env:KEY", "env:KEYS", "unset-variable"),
  planted("env:SOLANA_KEY", "env:KEY", "malformed-key"),
  planted("https://mainnet.base.org", "mainnet.base.org", "bad-value"),
  planted("commitment: confirmed", "confirmations: 1", "unused-key"),
  planted("confirmations: 1", "confirmation: 1", "unknown-key"),
  planted('["0xB97EF9Ef', '["0xB97EF9EF', "bad-checksum"),
  planted("url: https://facilitator.example.com, ", "", "missing-key"),
  planted("timeout: 10s", "timeout: 10 s", "bad-value"),
  planted("rpc: { avalanche", "rpc: { avalance", "unknown-network"),
  planted("GET /health:", "GET health:", "bad-route"),
  planted("price: free, upstream: api", "price: free, upstream: apy", "unknown-upstream"),
  planted("price: $0.01", "price: 0.01", "ambiguous-price"),
  planted("price: $0.01", "price: $0.0000001", "bad-price"),
  planted("price: $0.01, ", "", "no-price"),
  planted("price: $0.01", "price:", "no-value"),
  planted("description: Weather", "description: [Weather]", "bad-type"),
  planted("text/plain", "plain", "bad-value"),
  planted("GET /weather:", "GET,GET /weather:", "bad-route"),
  planted("POST /chat:", "POST /chat//:", "bad-route"),
  planted("maxTimeoutSeconds: 90", "maxTimeoutSeconds: 9", "bad-value"),
  planted('asset: EURC, amount: "9300"', "asset: EURC", "no-amount"),
  planted('"9300"', "9300", "bad-type"),
  planted("GET /tokens:", "GET /weather:", "duplicate-key"),
  planted("GET /tokens:", "/weather:", "duplicate-route"),
  planted('amount: "100"', "amount: $1", "bad-value"),
  planted("unmatched: deny\n", "", "no-unmatched"),
  planted("unmatched: deny", "unmatched: closed", "bad-value"),
  planted("sqlite:./data", "mysql:./data", "bad-value"),
  planted("level: info", "level: loud", "bad-value"),
  planted("https://app.example.com", "https://app.example.com/", "bad-value"),
];
