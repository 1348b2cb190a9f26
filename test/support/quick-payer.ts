/** Payments in numbers: signed by the library of ours, which takes a tenth of what a wallet's takes. */
import { randomBytes } from "node:crypto";
import { addressWord, uintWord } from "../../src/mechanism/evm/abi.ts";
import { secp256k1 } from "../../src/mechanism/evm/signature.ts";
import { authorizationDigest, createToken } from "../../src/mechanism/evm/token.ts";
import { encodePaymentHeader } from "../../src/x402/header.ts";
import { findNetwork } from "../../src/x402/network.ts";
import type { EvmAuthorization, EvmPayload, PaymentRequirements } from "../../src/x402/x402.ts";

/** What a payer would sign for an offer, with a nonce of its own. */
export function authorize(
  from: string,
  { payTo, maxAmountRequired }: PaymentRequirements,
  validSeconds = 60,
): EvmAuthorization {
  return {
    from,
    to: payTo,
    value: maxAmountRequired,
    validAfter: "0",
    validBefore: String(Math.floor(Date.now() / 1_000) + validSeconds),
    nonce: `0x${randomBytes(32).toString("hex")}`,
  };
}

/** The value of `X-PAYMENT`: signed by that key, on an EVM network. */
export function quickPayment(
  key: Uint8Array,
  offer: PaymentRequirements,
  validSeconds?: number,
): string {
  const network = findNetwork(offer.network);
  if (network?.kind !== "evm") throw new Error("an EVM network is wanted");
  const authorization = authorize(secp256k1.addressOf(key), offer, validSeconds);
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const words = [
    addressWord(from),
    addressWord(to),
    ...[value, validAfter, validBefore].map((text) => uintWord(BigInt(text))),
    nonce.slice(2),
  ];
  const token = createToken(network.asset, network.chainId);
  const { r, s, yParity } = secp256k1.sign(authorizationDigest(token, words.join("")), key);
  const bytes = Buffer.concat([r, s, Buffer.of(27 + yParity)]);
  return paymentHeader(offer, { signature: `0x${bytes.toString("hex")}`, authorization });
}

export function paymentHeader(
  { scheme, network }: PaymentRequirements,
  payload: EvmPayload,
): string {
  return encodePaymentHeader({ x402Version: 1, scheme, network, payload });
}
