import { expect, test } from "vitest";
import { startTable } from "../../../src/cli/start-table.ts";
import { configOf } from "../app/config-of.ts";

const FEE_PAYER = "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4";

const TEXT = `
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: CmGgLQL36Y9ubtTsy2zmE46TAxwCBm66onZmPPhUWNqv
accept: [solana, { network: solana-devnet, testnet: true }]
facilitator: https://facilitator.example.com
unmatched: deny
routes:
  GET /weather: $0.01
`;

test("networks that others settle are shown with who pays the network fee, or that nobody is known", () => {
  const table = startTable(
    configOf(TEXT),
    {
      addresses: { gateway: [], facilitator: null, admin: null },
      workers: 1,
      probes: [],
      wallets: [
        {
          network: "solana",
          address: FEE_PAYER,
          source: "env:KEY",
          funds: "has 0.5 SOL, a settlement costs 0.00001 SOL: enough for 50000",
        },
      ],
      feePayers: [
        { network: "solana", address: FEE_PAYER },
        { network: "solana-devnet", address: null },
      ],
    },
    [],
  );
  expect(table).toContain(`
networks
  solana         settled by others, fee payer ${FEE_PAYER}
  solana-devnet  settled by others, fee payer NOT KNOWN YET, nothing is sold there
  others         settled by https://facilitator.example.com
`);
  expect(table).toContain(`
wallets that pay network fees
  solana  ${FEE_PAYER}  key from env:KEY  has 0.5 SOL, a settlement costs 0.00001 SOL: enough for 50000
`);
});

test("listeners are shown with the scheme that they speak", () => {
  const config = configOf(TEXT);
  const files = { certificates: [{ certFile: "/run/tls.crt", keyFile: "/run/tls.key" }] };
  const places = [
    { host: null, port: 8443, tls: files, redirect: false },
    { host: null, port: 8402, tls: null, redirect: false },
  ];
  const gateway = places.map(({ port }) => ({ address: "::", family: "IPv6", port }));
  const table = startTable(
    { ...config, listen: places },
    {
      addresses: { gateway, facilitator: null, admin: null },
      workers: 1,
      probes: [],
      wallets: [],
      feePayers: [],
    },
    [],
  );
  expect(table).toContain("gateway  https://[::]:8443  as http://localhost:8402");
  expect(table).toContain("gateway  http://[::]:8402  as http://localhost:8402");
});
