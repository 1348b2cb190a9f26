/** Who pays in attacks: each buyer has a purse of its own, so that it can be seen what it was charged. */
import { randomBytes } from "node:crypto";
import { encodeHeaderJson } from "../../src/x402/header.ts";
import { PAYMENT_FLOW, paymentV2, requirementsV2 } from "../../src/x402/version-2.ts";
import {
  X402_VERSION,
  type FacilitatorRequest,
  type PaymentRequirements,
  type X402Version,
} from "../../src/x402/x402.ts";
import type { Chain } from "../support/chain.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import type { Wallet } from "./attack-bytes.ts";
import type { Flaw } from "./flaw.ts";

/** What a payer owns, atomic units: more than any price but the dearest. */
const PURSE = 1_000_000n;

export interface Payer {
  readonly address: FreshAccount["address"];
  readonly request: FacilitatorRequest;
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

  /** What one case pays with, in that version unless it says another; its buyers come into `payers`. */
  wallet(payers: Map<string, Payer>, version: X402Version): Wallet {
    const pay = async (which: string): Promise<FacilitatorRequest> => {
      return payers.get(which)?.request ?? this.#pay(which, payers);
    };
    const told = (payment: object): string => {
      const header = encodeHeaderJson(payment);
      this.headers.push(header);
      return header;
    };
    return {
      version,
      offer: this.#quote,
      pay: async (which, as = version) => told(inVersion(as, await pay(which)).payment),
      accept: async (member, value) => {
        const payment = paymentV2(await pay("payment"));
        return told({ ...payment, accepted: { ...payment.accepted, [member]: value } });
      },
      forge: async (members) =>
        encodeHeaderJson(inVersion(version, await this.#forge(members)).payment),
      settlement: async (amount) => {
        const { payment, requirements } = inVersion(
          version,
          await this.#settlement(amount, payers),
        );
        return JSON.stringify({
          x402Version: version,
          paymentPayload: payment,
          paymentRequirements: requirements,
        });
      },
    };
  }

  /**
   * Who was charged another sum than that, atomic units; or where nothing is charged but that, whether one payer was.
   */
  async judge(payers: ReadonlyMap<string, Payer>, price: bigint): Promise<readonly Flaw[]> {
    const balances = [...payers.values()].map(({ address }) => this.#chain.balanceOf(address));
    const charged = (await Promise.all(balances)).map((balance) => PURSE - balance);
    const [first = 0n, ...others] = charged.toSorted((one, other) => Number(other - one));
    if (payers.size === 0 || (first === price && others.every((sum) => sum === 0n))) return [];
    return [{ kind: "payment", detail: `${charged.join(" and ")} were charged, not ${price}` }];
  }

  async #pay(which: string, payers: Map<string, Payer>): Promise<FacilitatorRequest> {
    const { account, address } = freshAccount();
    if (which !== "broke") await this.#chain.fund(address, PURSE);
    const requirements = await this.#quote();
    const value = VALUES[which]?.(BigInt(requirements.maxAmountRequired));
    const overrides = value === undefined ? {} : { value: String(value) };
    const paymentPayload = await signPayment({ account, requirements, overrides });
    const request = { paymentPayload, paymentRequirements: requirements };
    if (which !== "broke") payers.set(which, { address, request });
    return request;
  }

  /** In the name of an address of nobody's, which no signature proves. */
  async #forge(members: Readonly<Record<string, unknown>>): Promise<FacilitatorRequest> {
    const offer = await this.#quote();
    const { scheme, network, payTo, maxAmountRequired, maxTimeoutSeconds } = offer;
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
    const paymentPayload = { x402Version: X402_VERSION, scheme, network, payload };
    return { paymentPayload, paymentRequirements: offer };
  }

  async #settlement(amount: string, payers: Map<string, Payer>): Promise<FacilitatorRequest> {
    const { account, address } = freshAccount();
    await this.#chain.fund(address, PURSE);
    const asked = await this.#quote();
    const requirements = { ...asked, maxAmountRequired: amount };
    // What is asked may be no amount at all; what is signed is one.
    const value = /^\d{1,20}$/.test(amount) ? String(BigInt(amount)) : "0";
    const paymentPayload = await signPayment({ account, requirements, overrides: { value } });
    const request = { paymentPayload, paymentRequirements: requirements };
    payers.set(`settlement ${amount}`, { address, request });
    return request;
  }
}

/** What is paid instead of a price. */
const VALUES: Readonly<Record<string, (price: bigint) => bigint>> = {
  cheap: () => 1n,
  dear: (price) => 2n * price,
};

/** The parts of a request to a facilitator, as that version has them. */
function inVersion(version: X402Version, request: FacilitatorRequest) {
  const { paymentPayload, paymentRequirements } = request;
  return version === X402_VERSION
    ? { payment: paymentPayload, requirements: paymentRequirements }
    : {
        payment: paymentV2(request),
        requirements: requirementsV2(paymentRequirements, PAYMENT_FLOW),
      };
}
