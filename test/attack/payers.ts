/** Who pays in attacks: each buyer has a purse of its own, so that it can be seen what it was charged. */
import { randomBytes } from "node:crypto";
import { encodePaymentHeader } from "../../src/x402/header.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import type { Chain } from "../support/chain.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import type { Wallet } from "./attack-bytes.ts";
import type { Flaw } from "./flaw.ts";

/** What a payer owns, atomic units: more than any price but the dearest. */
const PURSE = 1_000_000n;

export interface Payer {
  readonly address: FreshAccount["address"];
  readonly header: string;
}

export class Payers {
  /** Every good payment that was made. */
  readonly headers: string[] = [];
  readonly #chain: Chain;
  readonly #quote: () => Promise<PaymentRequirements>;

  /** @param quote what is asked for /paid */
  constructor(chain: Chain, quote: () => Promise<PaymentRequirements>) {
    this.#chain = chain;
    this.#quote = quote;
  }

  /** What one case pays with; its buyers come into `payers`. */
  wallet(payers: Map<string, Payer>): Wallet {
    return {
      pay: async (which) => payers.get(which)?.header ?? this.#pay(which, payers),
      forge: (members) => this.#forge(members),
      settlement: (amount) => this.#settlement(amount, payers),
    };
  }

  /** Who was charged another sum than that, atomic units. */
  async judge(payers: ReadonlyMap<string, Payer>, price: bigint): Promise<readonly Flaw[]> {
    const flaws: Flaw[] = [];
    for (const { address } of payers.values()) {
      const charged = PURSE - (await this.#chain.balanceOf(address));
      if (charged !== price) {
        flaws.push({ kind: "payment", detail: `${charged} were charged, not ${price}` });
      }
    }
    return flaws;
  }

  async #pay(which: string, payers: Map<string, Payer>): Promise<string> {
    const { account, address } = freshAccount();
    if (which !== "broke") await this.#chain.fund(address, PURSE);
    const requirements = await this.#quote();
    const overrides = which === "cheap" ? { value: "1" } : {};
    const header = encodePaymentHeader(await signPayment({ account, requirements, overrides }));
    if (which !== "broke") payers.set(which, { address, header });
    this.headers.push(header);
    return header;
  }

  /** In the name of an address of nobody's, which no signature proves. */
  async #forge(members: Readonly<Record<string, unknown>>): Promise<string> {
    const { scheme, network, payTo, maxAmountRequired, maxTimeoutSeconds } = await this.#quote();
    const now = Math.floor(Date.now() / 1000);
    const authorization = {
      from: freshAccount().address,
      to: payTo,
      value: maxAmountRequired,
      validAfter: "0",
      validBefore: String(now + maxTimeoutSeconds),
      nonce: `0x${randomBytes(32).toString("hex")}`,
      ...members,
    };
    const signature = `0x${randomBytes(64).toString("hex")}1b`;
    const payload = { signature, authorization };
    const payment = { x402Version: 1, scheme, network, payload };
    return Buffer.from(JSON.stringify(payment)).toString("base64");
  }

  async #settlement(amount: string, payers: Map<string, Payer>): Promise<string> {
    const { account, address } = freshAccount();
    await this.#chain.fund(address, PURSE);
    const asked = await this.#quote();
    const requirements = { ...asked, maxAmountRequired: amount };
    // What is asked may be no amount at all; what is signed is one.
    const value = /^\d{1,20}$/.test(amount) ? String(BigInt(amount)) : "0";
    const paymentPayload = await signPayment({ account, requirements, overrides: { value } });
    payers.set(`settlement ${amount}`, { address, header: encodePaymentHeader(paymentPayload) });
    return JSON.stringify({ x402Version: 1, paymentPayload, paymentRequirements: requirements });
  }
}
