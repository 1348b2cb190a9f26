import { describe, expect, test } from "vitest";
import { maskKeys } from "../../../src/config/reading/mask.ts";
import {
  GATEWAY,
  keypairFile,
  OTHER_SOLANA_HEX,
  parse,
  PAYEE,
  priced,
  ROUTES,
  SOLANA_ADDRESS,
  SOLANA_BASE58,
  SOLANA_HEX,
} from "./fixture.ts";

const WALLET = "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4";
const MINT = "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr";

const BOTH = GATEWAY.replace(/^payTo:.*$/m, `payTo: { evm: "${PAYEE}", solana: ${WALLET} }`)
  .replace(/^accept:.*$/m, "accept: [solana-devnet, base-sepolia]")
  .replace(/^facilitator:.*$/m, "");
const REMOTE = "facilitator: https://facilitator.example.com\n";

const embedding = (network: string): string => `
facilitator:
  listen: 127.0.0.1:4021
  embedded: { networks: { solana: { rpc: ["https://rpc.example.com/?api-key=key"], ${network} } } }
`;

describe("a route that is paid on Solana", () => {
  test("costs the network's USDC, paid to the Solana address, and offers EVM first", () => {
    const { offers } = priced(parse(BOTH + REMOTE + ROUTES), "GET /weather");

    expect(offers.map(({ network, payTo }) => [network, payTo])).toEqual([
      ["base-sepolia", PAYEE],
      ["solana-devnet", WALLET],
    ]);
    expect(offers[1]).toEqual({
      network: "solana-devnet",
      asset: {
        symbol: "USDC",
        address: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
        decimals: 6,
        tokenProgram: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
      },
      payTo: WALLET,
      amountAtomic: 10_000n,
      dollars: "$0.01",
    });
  });

  test("may want a memo in payments, of 256 bytes at most", () => {
    const memo = "x".repeat(256);
    const config = (text: string) =>
      parse(`${BOTH}${REMOTE}routes: { GET /a: { price: $0.01, memo: "${text}" } }`);
    expect(priced(config(memo), "GET /a").memo).toBe(memo);
    expect(() => config(`${memo}x`)).toThrow("must be 1 to 256 printable characters");
  });

  test("keeps the order of the file among networks of one family", () => {
    const config = parse(`${BOTH}${REMOTE}
routes:
  GET /a: { price: $0.01, accept: [solana, base, { network: solana-devnet, testnet: true }, { network: base-sepolia, testnet: true }] }
`);

    const networks = priced(config, "GET /a").offers.map(({ network }) => network);
    expect(networks).toEqual(["base", "base-sepolia", "solana", "solana-devnet"]);
  });

  test("overrides the payee of one family and keeps the other's", () => {
    const config = parse(`${BOTH}${REMOTE}
routes:
  GET /a: { price: $0.01, payTo: ${SOLANA_ADDRESS} }
  GET /b: { price: $0.01, payTo: { solana: ${SOLANA_ADDRESS} } }
`);

    for (const key of ["GET /a", "GET /b"]) {
      const payees = priced(config, key).offers.map(({ payTo }) => payTo);
      expect(payees).toEqual([PAYEE, SOLANA_ADDRESS]);
    }
  });

  test("is paid in another token by its mint, whose program is left to the chain", () => {
    const config = parse(`${BOTH}${REMOTE}
assets: { EURC: { solana: { address: ${MINT}, decimals: 6 } } }
routes:
  GET /a: { accept: [{ network: solana, asset: EURC, amount: "18446744073709551615" }] }
`);

    expect(priced(config, "GET /a").offers).toEqual([
      {
        network: "solana",
        asset: { symbol: "EURC", address: MINT, decimals: 6, tokenProgram: null },
        payTo: WALLET,
        amountAtomic: 2n ** 64n - 1n,
        dollars: null,
      },
    ]);
  });
});

describe("Solana under facilitator.embedded", () => {
  test("has defaults", () => {
    const [solana] = parse(embedding("signers: [env:SOLANA_KEY]")).facilitator.embedded;

    expect(solana).toMatchObject({
      kind: "solana",
      network: "solana",
      rpc: [{ host: "rpc.example.com" }],
      commitment: "confirmed",
      maxFeeLamports: 100_000n,
      lighthouse: "assertions",
      lighthouseLossPerHour: 300_000n,
      nativePriceAttodollars: null,
      assets: [{ symbol: "USDC", address: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v" }],
    });
    expect(solana).not.toHaveProperty("confirmations");
    expect(solana?.rpc[0]?.url.reveal()).toBe("https://rpc.example.com/?api-key=key");
  });

  test("can be told what a settlement may cost, and when it counts", () => {
    const written =
      'commitment: finalized, maxFeeLamports: "20000", lighthouse: deny, lighthouseLossPerHour: 30000, nativePrice: $150';
    const config = parse(embedding(`signers: [env:SOLANA_KEY], ${written}`));

    expect(config.facilitator.embedded).toMatchObject([
      {
        commitment: "finalized",
        maxFeeLamports: 20_000n,
        lighthouse: "deny",
        lighthouseLossPerHour: 30_000n,
        nativePriceAttodollars: 150n * 10n ** 18n,
      },
    ]);
  });

  test.each([
    ["env:SOLANA_KEY", SOLANA_HEX],
    ["env:SOLANA_JSON", SOLANA_HEX],
    ["file:/run/secrets/solana.json", OTHER_SOLANA_HEX],
  ])("reads the keypair of %s", (source, hex) => {
    const [solana] = parse(embedding(`signers: ["${source}"]`)).facilitator.embedded;

    expect(solana?.signers.map(({ key }) => [key.reveal()])).toEqual([[hex]]);
    expect(solana?.signers[0]?.source).toBe(source);
  });

  test("settles the tokens of routes and of `allow`, and pays whom either names", () => {
    const config = parse(`${BOTH}
assets:
  EURC: { solana: { address: ${MINT}, decimals: 6 } }
  XYZ: { solana-devnet: { address: ${SOLANA_ADDRESS}, decimals: 9 } }
facilitator:
  embedded:
    networks:
      solana-devnet: { rpc: [https://api.devnet.solana.com], signers: [env:SOLANA_KEY] }
      solana: { rpc: [https://api.mainnet-beta.solana.com], signers: [env:SOLANA_KEY] }
      base-sepolia: { rpc: ["http://127.0.0.1:8545"], signers: [env:KEY] }
    allow:
      payTo: [${SOLANA_ADDRESS}]
      assets: [${MINT}, "0x036cbd53842c5426634e7929541ec2318f3dcf7e"]
routes:
  GET /a: { accept: [{ network: solana-devnet, asset: XYZ, amount: "1" }] }
`);

    const settled = config.facilitator.embedded.map(({ network, assets }) => [
      network,
      assets.map(({ symbol }) => symbol),
    ]);
    expect(settled).toEqual([
      ["solana-devnet", ["USDC", "XYZ"]],
      ["solana", ["USDC", "EURC"]],
      ["base-sepolia", ["USDC"]],
    ]);
    expect(config.facilitator.payees).toEqual([WALLET, SOLANA_ADDRESS]);
  });
});

test("Solana that others settle can be asked", () => {
  const { observed } = parse(`${BOTH}
facilitator:
  remote: [{ url: https://facilitator.example.com, confirm: receipt }]
  rpc: { solana-devnet: [https://api.devnet.solana.com], base-sepolia: [https://sepolia.base.org] }
${ROUTES}`).facilitator;

  expect(observed).toMatchObject([
    { kind: "solana", network: "solana-devnet", commitment: "confirmed" },
    { kind: "evm", network: "base-sepolia", confirmations: 1 },
  ]);
  expect(observed[0]?.assets.map(({ symbol }) => symbol)).toEqual(["USDC"]);
});

describe("text that is masked", () => {
  test.each([
    ["base58", SOLANA_BASE58],
    ["JSON", keypairFile(SOLANA_HEX)],
    ["JSON on several lines", keypairFile(SOLANA_HEX).replaceAll(",", " ,\n  ")],
    ["half a keypair in JSON", keypairFile(SOLANA_HEX.slice(0, 64))],
    ["hex", SOLANA_HEX],
  ])("has no keypair in %s", (_, text) => {
    const masked = maskKeys(`a: ${text} b`);

    expect(masked.length).toBe(text.length + 5);
    expect(masked).toMatch(/^a: [*[\]\s]+ b$/);
  });

  test("keeps addresses, networks and lists of a few numbers", () => {
    const text = `payTo: ${WALLET} mint ${MINT} [1, 2, 3] 18446744073709551615`;

    expect(maskKeys(text)).toBe(text);
  });
});
