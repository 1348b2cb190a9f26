/** Gateways with little but what they sell, for what `check` and `doctor` say of its quotes. */
import { parseConfig, type Config } from "../../../src/config/config.ts";
import { NETWORK_NAMES, networkOf } from "../../../src/x402/network.ts";
import { environment, SOLANA_ADDRESS } from "../config/fixture.ts";

export interface Selling {
  /** Networks, separated by commas. */
  readonly accept?: string;
  /** More of the facilitator. */
  readonly facilitator?: string;
  /** More top-level keys. */
  readonly more?: string;
  readonly routes: readonly string[];
}

export function selling({ accept = "base", facilitator = "", more = "", routes }: Selling): Config {
  const text = `upstream: http://localhost:3000
publicUrl: https://shop.example
payTo: { evm: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", solana: ${SOLANA_ADDRESS} }
accept: [${accept}]
facilitator:
  remote: [{ url: "https://facilitator.example.com" }]
  ${facilitator}
unmatched: deny
${more}
routes:
${routes.map((each) => `  ${each}\n`).join("")}`;
  const result = parseConfig(text, { file: "gateway.yaml", ...environment });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

const EVM = NETWORK_NAMES.filter((name) => networkOf(name).kind === "evm");
const NUMBERS = [1, 2, 3, 4] as const;

/** Tokens that a file may declare: {@link waysToPay} are paid in them. */
export const ODD_TOKENS = `assets:
${NUMBERS.map((number) => {
  const eip712 = `eip712: { name: Odd ${number}, version: "1" }`;
  const address = `"0x${String(number).repeat(40)}"`;
  const odd = EVM.map((network) => `${network}: { address: ${address}, decimals: 6, ${eip712} }`);
  return `  T${number}: { ${odd.join(", ")} }`;
}).join("\n")}`;

/** An `accept` with so many entries, at most 40; `amountOf` each of them, by its place. */
export function waysToPay(count: number, amountOf: (index: number) => bigint = () => 1n): string {
  const entries = NUMBERS.flatMap((number) => {
    return EVM.map((network) => {
      return `network: ${network}, testnet: ${networkOf(network).testnet}, asset: T${number}`;
    });
  });
  const amounted = entries.map((entry, index) => `{ ${entry}, amount: "${amountOf(index)}" }`);
  return `accept: [${amounted.slice(0, count).join(", ")}]`;
}
