/** The gateways' configuration, without listeners and store. */
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import type { Chain } from "../support/chain.ts";
import type { FreshAccount } from "../support/payer.ts";
import { requirementsFor } from "../support/payer.ts";

export interface Places {
  readonly upstream: string;
  readonly rpc: string;
  readonly payee: string;
}

const MAX_TIMEOUT_SECONDS = 900;

/** What the gateways ask for an item, but for what they say of it. */
export function offerOf({ network }: Chain, payTo: string): PaymentRequirements {
  return requirementsFor(network.name, { payTo, maxTimeoutSeconds: MAX_TIMEOUT_SECONDS });
}

/** The variables that {@link configuration} names. */
export function keysOf(
  signers: readonly FreshAccount[],
  refunder: FreshAccount,
): Readonly<Record<string, string>> {
  const keys = signers.map(({ privateKey }, n) => [`SIGNER_${n}`, privateKey]);
  return { ...Object.fromEntries(keys), REFUNDER: refunder.privateKey };
}

const ITEMS = `routes:
  GET /items/:id: { price: $0.01, description: An item, maxTimeoutSeconds: ${MAX_TIMEOUT_SECONDS} }
`;

interface Selling {
  /** Default: 1. */
  readonly workers?: number;
  /** YAML of the routes, and of whatever else is sold; default: items. */
  readonly sells?: string;
}

/** The keys are in variables, see {@link keysOf}. */
export function configuration(
  { network }: Chain,
  signers: readonly unknown[],
  { upstream, rpc, payee }: Places,
  { workers = 1, sells = ITEMS }: Selling = {},
): string {
  const keys = signers.map((_, n) => `env:SIGNER_${n}`).join(", ");
  return `
upstream: ${upstream}
payTo: "${payee}"
accept: [${network.name}]
facilitator:
  embedded:
    networks:
      ${network.name}: { rpc: ["${rpc}"], signers: [${keys}] }
refunds: { signer: { evm: env:REFUNDER }, maxPerDay: $1000, automatic: true }
unmatched: deny
workers: ${workers}
shutdown: 10s
logging: { level: warn }
${sells}`;
}
