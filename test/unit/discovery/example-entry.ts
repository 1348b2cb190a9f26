/** Entries of a catalogue that differ from one in what a test is about. */
import { outputSchemaOf, type CatalogueEntry } from "../../../src/discovery/discovery.ts";
import type { PaymentRequirements } from "../../../src/x402/x402.ts";

export const ORIGIN = "https://api.example.com";

export function requirementsFor(resource: string): PaymentRequirements {
  return {
    scheme: "exact",
    network: "base-sepolia",
    maxAmountRequired: "10000",
    asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
    resource,
    description: "Current weather",
    mimeType: "application/json",
    outputSchema: outputSchemaOf({ method: "GET", discoverable: true, input: {}, output: null }),
    maxTimeoutSeconds: 60,
    extra: { name: "USDC", version: "2" },
  };
}

export function offer(path: string, change: Partial<PaymentRequirements>): PaymentRequirements {
  return { ...requirementsFor(`${ORIGIN}${path}`), ...change };
}

export function entry(path: string, change: Partial<CatalogueEntry> = {}): CatalogueEntry {
  const resource = `${ORIGIN}${path}`;
  return {
    resource,
    methods: ["GET"],
    accepts: [requirementsFor(resource)],
    metadata: {},
    isTemplate: false,
    lastUpdated: 1_703_123_456,
    ...change,
  };
}
