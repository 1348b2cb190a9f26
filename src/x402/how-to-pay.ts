/** How the versions of the protocol are spoken, in words for those who read documents: people and language models. */
import { X402_VERSION, X402_VERSION_2, type X402Version } from "./x402.ts";

/** The versions in which buyers may pay, the oldest first; at least one. */
export type Versions = readonly X402Version[];

const WORDS = {
  [X402_VERSION]: [
    "Ask for a resource without payment: the answer is status 402, and its JSON body lists the ways to pay",
    "in `accepts`. Sign one of them and send the same request again with the payment in the header",
    "`X-PAYMENT` (base64 of JSON). The receipt comes back in the header `X-PAYMENT-RESPONSE`.",
  ],
  [X402_VERSION_2]: [
    "In version 2 the header `PAYMENT-REQUIRED` (base64 of JSON) of that answer lists the ways to pay, the payment",
    "goes into the header `PAYMENT-SIGNATURE`, and the receipt comes back in the header `PAYMENT-RESPONSE`.",
  ],
} as const;
const NEW_ALONE = [
  "Ask for a resource without payment: the answer is status 402. Sign one of the ways to pay and send the same",
  "request again.",
];

/** Lines of Markdown. */
export function howToPay(versions: Versions): readonly string[] {
  const begun = versions.includes(X402_VERSION) ? [] : NEW_ALONE;
  return [...begun, ...versions.flatMap((version) => WORDS[version])];
}

/** `version 1`, or `versions 1 and 2`. */
export function versionWords(versions: Versions): string {
  return `version${versions.length > 1 ? "s" : ""} ${versions.join(" and ")}`;
}
