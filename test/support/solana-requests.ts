/** Payments on Solana as requests to a facilitator, and mechanisms that answer them. */
import {
  createSolanaMechanism,
  type SolanaAuthorization,
  type SolanaMechanismOptions,
} from "../../src/mechanism/solana/solana.ts";
import type { Mechanism } from "../../src/mechanism/mechanism.ts";
import { systemTime } from "../../src/time/time.ts";
import { networkOf, type SolanaNetwork } from "../../src/x402/network.ts";
import { ADDRESS_BYTES, decodeBase58 } from "../../src/x402/solana-address.ts";
import type { FacilitatorRequest, PaymentRequirements } from "../../src/x402/x402.ts";
import {
  buildTransaction,
  somePayment,
  testKey,
  type Payment,
  type Plan,
} from "./solana-messages.ts";

export type SolanaMechanism = Mechanism<SolanaAuthorization>;

export const never = new AbortController().signal;

export function devnet(): SolanaNetwork {
  const network = networkOf("solana-devnet");
  if (network.kind !== "solana") throw new Error("solana-devnet is a Solana network");
  return network;
}

/** The secret of {@link testKey}, as a configuration has it: hex of the seed and the public key. */
export function secretOf(number: number): string {
  const publicKey = decodeBase58(testKey(number).address, ADDRESS_BYTES) ?? new Uint8Array();
  return Buffer.concat([Buffer.alloc(ADDRESS_BYTES, number), publicKey]).toString("hex");
}

/** A cent in the network's USDC: key 1 pays the network fee, key 2 pays key 3. */
export function devnetPayment(changes: Partial<Payment> = {}): Payment {
  return somePayment({ asset: devnet().asset.address, ...changes });
}

export function requirementsOf(
  payment: Payment,
  changes: Partial<PaymentRequirements> = {},
): PaymentRequirements {
  return {
    scheme: "exact",
    network: "solana-devnet",
    maxAmountRequired: payment.amount.toString(),
    asset: payment.asset,
    payTo: payment.payTo,
    resource: "https://shop.example/report",
    description: "A report",
    maxTimeoutSeconds: 60,
    extra: { feePayer: payment.feePayer },
    ...changes,
  };
}

/** A transaction, in base64, for these requirements. */
export function requestOf(
  transaction: string,
  paymentRequirements: PaymentRequirements,
): FacilitatorRequest {
  const { scheme, network } = paymentRequirements;
  const paymentPayload = { x402Version: 1, scheme, network, payload: { transaction } };
  return { paymentPayload, paymentRequirements };
}

export function requestFor(
  plan: Plan,
  payment: Payment,
  changes: Partial<PaymentRequirements> = {},
): FacilitatorRequest {
  return requestOf(buildTransaction(plan), requirementsOf(payment, changes));
}

/** Serves the network's USDC with key 1; to be closed. */
export function openSolanaMechanism(
  members: Partial<SolanaMechanismOptions> & Pick<SolanaMechanismOptions, "rpcUrls">,
): SolanaMechanism {
  return createSolanaMechanism({
    network: devnet(),
    assets: [devnet().asset],
    keys: [secretOf(1)],
    commitment: "confirmed",
    time: systemTime,
    allowPayTo: "any",
    maxFeeLamports: 100_000n,
    lighthouse: "assertions",
    isDenied: () => false,
    lighthouseLossPerHour: 300_000n,
    ...members,
  });
}
