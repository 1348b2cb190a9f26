import { describe, expect, test } from "vitest";
import { checkTogether, type Loaded } from "../../../../src/cli/check/check-together.ts";
import { parseConfig } from "../../../../src/config/config.ts";
import { encodeBase58 } from "../../../../src/x402/solana-address.ts";
import { secretOf } from "../../../support/solana-requests.ts";

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const OTHER_PAYEE = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const SOLANA_PAYEE = "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4";

interface Shop {
  readonly payTo?: string;
  readonly store?: string;
  readonly accept?: string;
  readonly embedded?: string;
}

/** As wallets export it. */
const keypairOf = (number: number): string => encodeBase58(Buffer.from(secretOf(number), "hex"));

let count = 0;

const readFile = (): never => {
  throw new Error("no files");
};

function load({
  payTo = PAYEE,
  store = "sqlite:./one.db",
  accept = "base",
  embedded,
}: Shop): Loaded {
  const name = `shop-${(count += 1)}.yaml`;
  const own = `{ embedded: { networks: { ${embedded} } } }`;
  const text = `
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: { evm: "${payTo}", solana: ${SOLANA_PAYEE} }
facilitator: ${embedded === undefined ? "https://facilitator.example.com" : own}
accept: [${accept}]
store: ${store}
unmatched: deny
routes:
  GET /weather: { price: $0.01, description: Weather }
`;
  const env = { KEY: keypairOf(1), OTHER: keypairOf(2) };
  const parsed = parseConfig(text, { file: name, env, readFile });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  const file = { name, isAccepted: true, problems: parsed.problems, text: parsed.text };
  return { file, config: parsed.config };
}

function found(...shops: readonly Shop[]): readonly (readonly string[])[] {
  return [...checkTogether(shops.map(load)).values()].map((problems) => {
    return problems.map(({ severity, code }) => `${severity} ${code}`);
  });
}

/** Settles on Solana with that key. */
const embedded = (key: string): Shop => ({
  accept: "solana-devnet",
  embedded: `solana-devnet: { rpc: ["http://127.0.0.1:1"], signers: [env:${key}] }`,
});

describe("several files", () => {
  test("with one payee and two stores are warned of: one payee, one ledger", () => {
    expect(found({}, { store: "sqlite:./two.db" })).toEqual([[], ["warning shared-payee"]]);
  });

  test("with one Solana key and two stores are warned of: the chain cannot tell them apart", () => {
    const both = ["warning shared-payee", "warning shared-key"];
    expect(found(embedded("KEY"), { ...embedded("KEY"), store: "sqlite:./two.db" })).toEqual([
      [],
      both,
    ]);
    const apart = { ...embedded("OTHER"), store: "sqlite:./two.db" };
    expect(found(embedded("KEY"), apart)).toEqual([[], ["warning shared-payee"]]);
  });

  test.each<[string, Shop]>([
    ["one store", {}],
    ["payees of their own", { store: "sqlite:./two.db", payTo: OTHER_PAYEE }],
    ["networks of their own", { store: "sqlite:./two.db", accept: "avalanche" }],
  ])("with %s are fine", (_, other) => {
    expect(found({}, other)).toEqual([[], []]);
  });
});
