/**
 * A buyer that pays for tools as `specs/transports-v2/mcp.md` of the protocol says, with the official packages of its
 * clients: what the protocol's own package for MCP would do, which no registry has.
 */
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import type { FreshAccount } from "../payer.ts";
import { createSvmSigner } from "../solana-clients.ts";
import type { SolanaKey } from "../solana-key.ts";
import type { CallOptions, CallResult, McpClient } from "./clients.ts";

type PaymentRequired = Parameters<x402Client["createPaymentPayload"]>[0];
type McpPayment = Awaited<ReturnType<x402Client["createPaymentPayload"]>>;

/** Where a payment and its receipt stand. */
export const PAYMENT_KEY = "x402/payment";
const RECEIPT_KEY = "x402/payment-response";
const ERROR_KEY = "x402/error";

interface Bought {
  readonly result: CallResult;
  /** What was asked for; null: nothing. */
  readonly asked: PaymentRequired | null;
  /** What was paid with; null: nothing was asked for. */
  readonly payment: McpPayment | null;
  /** As it was told; undefined: it was not. */
  readonly receipt: Readonly<Record<string, unknown>> | undefined;
}

export class McpBuyer {
  readonly #client: Pick<McpClient, "call">;
  readonly #payer: x402Client;

  private constructor(client: Pick<McpClient, "call">, payer: x402Client) {
    this.#client = client;
    this.#payer = payer;
  }

  /** Signs with the account on every EVM network. */
  static onEvm(
    client: Pick<McpClient, "call">,
    { account }: Pick<FreshAccount, "account">,
  ): McpBuyer {
    return new McpBuyer(client, new x402Client().register("eip155:*", new ExactEvmScheme(account)));
  }

  /** Signs with the key on Solana. @param rpcUrl where the token's mint and a blockhash are read */
  static async onSolana(
    client: Pick<McpClient, "call">,
    key: SolanaKey,
    rpcUrl: string,
  ): Promise<McpBuyer> {
    const scheme = new ExactSvmScheme(await createSvmSigner(key), { rpcUrl });
    const payer = new x402Client().setSpendControls({ allowedAssets: true });
    return new McpBuyer(client, payer.register("solana:*", scheme));
  }

  /** Calls, pays once where it is asked to, and calls again. */
  async buy(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: CallOptions = {},
  ): Promise<Bought> {
    const unpaid = await this.#client.call(name, args, options);
    const asked = paymentRequiredOf(unpaid);
    if (asked === null) return { result: unpaid, asked, payment: null, receipt: receiptOf(unpaid) };
    const payment = await this.sign(asked);
    const result = await this.present(payment, name, args, options);
    return { result, asked, payment, receipt: receiptOf(result) };
  }

  sign(asked: PaymentRequired): Promise<McpPayment> {
    return this.#payer.createPaymentPayload(asked);
  }

  /** Presents a payment, which may be an earlier one. */
  present(
    payment: object,
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: CallOptions = {},
  ): Promise<CallResult> {
    const meta = { ...options.meta, [PAYMENT_KEY]: payment };
    return this.#client.call(name, args, { ...options, meta });
  }
}

function receiptOf({ _meta }: CallResult): Bought["receipt"] {
  const receipt = _meta?.[RECEIPT_KEY];
  return receipt === undefined ? undefined : { ...Object(receipt) };
}

/** Where the specification tells clients to look, in its order; null: no payment is asked for. */
export function paymentRequiredOf(result: CallResult): PaymentRequired | null {
  if (result.isError !== true) return null;
  const structured: unknown = result.structuredContent;
  const written = jsonOf(result.content[0]?.text);
  for (const place of [
    structured,
    Object(Object(structured)[ERROR_KEY]).data,
    written,
    Object(Object(written)[ERROR_KEY]).data,
  ]) {
    if (isPaymentRequired(place)) return place;
  }
  return null;
}

function isPaymentRequired(value: unknown): value is PaymentRequired {
  const { x402Version, accepts } = Object(value);
  return typeof x402Version === "number" && Array.isArray(accepts);
}

function jsonOf(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}
