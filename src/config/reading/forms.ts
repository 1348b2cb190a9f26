/**
 * What the values look like that several parts of the document have in common, for editors: addresses,
 * networks, URLs, amounts. Whether a value is right is for its reader to say, who knows more.
 */
import { NETWORK_NAMES, networkOf } from "../../x402/network.ts";
import { HEX_NUMBER, matching, type Form } from "./shapes.ts";

const EVM = "0x[0-9a-fA-F]{40}";
const SOLANA = "[1-9A-HJ-NP-Za-km-z]{32,44}";

export const EVM_ADDRESS: Form = {
  anyOf: [
    matching(new RegExp(`^${EVM}$`), "must be an EVM address, in quotes: 0x and 40 hex digits"),
    HEX_NUMBER,
  ],
};

export const SOLANA_ADDRESS = matching(
  new RegExp(`^${SOLANA}$`),
  "must be a Solana address: base58 of 32 bytes",
);

/** Of either family. */
export const ADDRESS: Form = {
  anyOf: [
    matching(
      new RegExp(`^(?:${EVM}|${SOLANA})$`),
      "must be an EVM address, in quotes (0x and 40 hex digits), or a Solana address",
    ),
    HEX_NUMBER,
  ],
};

/** The names of the networks, each with what it is. */
export const NETWORK: Form & { readonly enumDescriptions: readonly string[] } = {
  enum: NETWORK_NAMES,
  enumDescriptions: NETWORK_NAMES.map((name) => {
    const { displayName, testnet, asset } = networkOf(name);
    return `${displayName}${testnet ? ", a test network" : ""}; dollars are paid in ${asset.symbol}`;
  }),
};

const URL_FORM = "must be an absolute http or https URL";

/** Without query and fragment. */
export const BASE_URL = matching(/^https?:\/\/[^\s\\?#]+$/, URL_FORM, "https://api.example.com");

/** Scheme, host and port. */
export const ORIGIN = matching(
  /^https?:\/\/[^\s\\?#/]+\/*$/,
  "must be an absolute http or https URL without a path",
  "http://localhost:3000",
);

export const RPC_URL = matching(/^https?:\/\/[^\s\\#]+$/, URL_FORM, "https://mainnet.base.org");

export const AMOUNT = matching(
  /^[0-9]{1,78}$/,
  "must be an amount in atomic units, in quotes: decimal digits",
  "10000",
);

/** Name of a group of payers. */
export const GROUP = /^[a-z][a-z0-9-]{0,31}$/;
export const GROUP_FORM = matching(
  GROUP,
  "must be a name: small letters, digits and -, at most 32",
  "partners",
);
