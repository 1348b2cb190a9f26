/** Payments on Solana in the right shape, which nobody signed: for facilitators that do not look. */
import { decodeBase58, encodeBase58 } from "../../../../src/x402/solana-address.ts";
import type {
  FacilitatorRequest,
  PaymentPayload,
  PaymentRequirements,
} from "../../../../src/x402/x402.ts";

/** An address that is 32 times that byte. */
export const addressOf = (byte: number): string => encodeBase58(new Uint8Array(32).fill(byte));

export const NETWORK = "solana-devnet";
export const FEE_PAYER = addressOf(1);
export const OTHER_FEE_PAYER = addressOf(2);
export const PAYER = addressOf(3);
export const PAYEE = addressOf(4);
export const MINT = addressOf(5);
export const OTHER_MINT = addressOf(6);
const TOKEN_PROGRAM = addressOf(7);
const SOURCE = addressOf(8);
const DESTINATION = addressOf(9);

export interface Transfer {
  readonly feePayer?: string;
  readonly mint?: string;
  readonly amount?: bigint;
  /** Payments of other numbers are other payments. */
  readonly number?: number;
  /** What fills the payer's signature. */
  readonly signature?: number;
}

/** A legacy transaction with one TransferChecked. */
export function solanaPayment(transfer: Transfer = {}): PaymentPayload {
  const { feePayer = FEE_PAYER, mint = MINT, amount = 10_000n } = transfer;
  const { number = 1, signature = 0xaa } = transfer;
  const keys = [feePayer, PAYER, SOURCE, DESTINATION, mint, TOKEN_PROGRAM];
  const data = Buffer.alloc(10, 0x0c);
  data.writeBigUInt64LE(amount, 1);
  data[9] = 6;
  const message = Buffer.concat([
    Buffer.from([2, 1, 2, keys.length]),
    ...keys.map(bytesOf),
    Buffer.alloc(32, number),
    Buffer.from([1, keys.indexOf(TOKEN_PROGRAM), 4, 2, 4, 3, 1, data.length]),
    data,
  ]);
  const signatures = [Buffer.alloc(64), Buffer.alloc(64, signature)];
  const bytes = Buffer.concat([Buffer.from([signatures.length]), ...signatures, message]);
  const payload = { transaction: bytes.toString("base64") };
  return { x402Version: 1, scheme: "exact", network: NETWORK, payload };
}

export function solanaRequirements(
  members: Partial<PaymentRequirements> = {},
): PaymentRequirements {
  return {
    scheme: "exact",
    network: NETWORK,
    maxAmountRequired: "10000",
    asset: MINT,
    payTo: PAYEE,
    resource: "https://shop.example/weather",
    description: "weather",
    mimeType: "application/json",
    maxTimeoutSeconds: 60,
    extra: { feePayer: FEE_PAYER },
    ...members,
  };
}

export function solanaRequest(feePayer = FEE_PAYER): FacilitatorRequest {
  const paymentRequirements = solanaRequirements({ extra: { feePayer } });
  return { paymentPayload: solanaPayment({ feePayer }), paymentRequirements };
}

/** What `GET /supported` says of that fee payer. */
export function kindOf(feePayer: string, network = NETWORK) {
  return { x402Version: 1, scheme: "exact", network, extra: { feePayer } };
}

function bytesOf(address: string): Uint8Array {
  const bytes = decodeBase58(address, 32);
  if (bytes === undefined) throw new Error(`not an address: ${address}`);
  return bytes;
}
