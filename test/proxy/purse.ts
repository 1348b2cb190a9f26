/** Pays for what the gateway under test asks for, and the facilitator that takes every payment. */
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import type { PaymentRequirements, X402Version } from "../../src/x402/x402.ts";
import { inHeader } from "../support/buyer.ts";
import { freshAccount, signPayment } from "../support/payer.ts";
import type { FacilitatorCall, FacilitatorReply } from "../support/scripted-facilitator.ts";
import { askOnce, AUTHORITY, type Place } from "./client.ts";
import type { Line } from "./wire.ts";

export class Purse {
  readonly #front: Place;
  readonly #payer = freshAccount();
  #requirements: PaymentRequirements | undefined;

  constructor(front: Place) {
    this.#front = front;
  }

  /** The line that pays for one request under `/paid/`, in that version. */
  async payment(target: string, version: X402Version): Promise<Line> {
    this.#requirements ??= await this.#quote();
    const resource = `http://${AUTHORITY}${target}`;
    const requirements = { ...this.#requirements, resource };
    const paymentPayload = await signPayment({ account: this.#payer.account, requirements });
    const request = { paymentPayload, paymentRequirements: requirements };
    return [PAYMENT_HEADERS[version], inHeader(request, version)];
  }

  async #quote(): Promise<PaymentRequirements> {
    const { content } = await askOnce(this.#front, { method: "GET", target: "/paid/any" });
    const { accepts } = Object(JSON.parse(content.start.toString()));
    return accepts[0];
  }
}

/** Every payment is good, and settled at once. */
export function sayYes({ url, body }: FacilitatorCall): FacilitatorReply {
  if (url === "/supported") {
    const kinds = [{ x402Version: 1, scheme: "exact", network: "base-sepolia" }];
    return { status: 200, body: { kinds } };
  }
  const { paymentPayload } = Object(JSON.parse(body));
  const { from: payer, nonce } = paymentPayload.payload.authorization;
  if (url === "/verify") return { status: 200, body: { isValid: true, payer } };
  const network = "base-sepolia";
  return { status: 200, body: { success: true, transaction: nonce, network, payer } };
}
