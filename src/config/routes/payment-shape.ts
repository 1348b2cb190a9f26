/** The shapes that say how something is paid: to whom, on which networks, in which tokens. */
import { z } from "zod";
import { ok, type Result } from "../../x402/result.ts";
import { readAddress, readEvmAddress, readPayee, readSolanaPayee } from "../listener/addresses.ts";
import { ADDRESS, AMOUNT, EVM_ADDRESS, NETWORK, SOLANA_ADDRESS, SYMBOL } from "../reading/forms.ts";
import type { Fault } from "../reading/problem.ts";
import { readAmount, readNetwork } from "../reading/reading.ts";
import {
  described,
  map,
  named,
  optional,
  plainText,
  reader,
  text,
  whole,
} from "../reading/shapes.ts";

/** Who is paid, by the family of networks; one address alone is for its own family. */
export const payees = z.union(
  [
    reader(
      z.string(),
      (written): Result<{ evm?: string; solana?: string }, Fault> => {
        const payee = readPayee(written);
        return payee.ok ? ok({ [payee.value.kind]: payee.value.text }) : payee;
      },
      ADDRESS,
    ),
    map({
      evm: optional(
        text(readEvmAddress, EVM_ADDRESS),
        "Who is paid on EVM networks. Keep the mixed case: it is a checksum that finds typing errors.",
      ),
      solana: optional(
        text(readSolanaPayee, SOLANA_ADDRESS),
        "Who is paid on Solana: the address of a wallet, not of its token account.",
      ),
    }),
  ],
  "must be an address or { evm: 0x…, solana: … }",
);

export const amount = described(
  text(readAmount, AMOUNT),
  'Amount in atomic units of the token, in quotes: one cent of USDC is "10000".',
);

export const assetSymbol = plainText;

const network = text(readNetwork, NETWORK);

export const acceptEntry = z.union(
  [
    network,
    map({
      network: described(network, "Network on which this is paid."),
      asset: optional(
        assetSymbol,
        "Symbol of the token: USDC, or one of `assets`. Without it: the network's USDC.",
      ),
      amount: optional(
        text(readAmount, AMOUNT),
        "Amount in atomic units, in quotes, in place of the route's price.",
      ),
    }),
  ],
  "must be a network or { network, asset, amount }",
);

/** Which of it belongs to which family of networks is decided in `accepted.ts`. */
const token = map({
  address: described(
    text(readAddress, ADDRESS),
    "Contract of the token on an EVM network, which implements EIP-3009; on Solana its mint.",
  ),
  decimals: described(whole(0, 36), "Digits behind the point of one whole token: USDC has 6."),
  eip712: optional(
    map({
      name: described(
        plainText.min(1, "must not be empty"),
        "`name` of the token's EIP-712 domain, exactly as its contract has it.",
      ),
      version: described(plainText, "`version` of the token's EIP-712 domain, in quotes."),
    }),
    "The EIP-712 domain that buyers sign with. Required on EVM networks, meaningless on Solana.",
  ),
});

/** Symbols, and under each what it is on which network. */
export const assets = named(named(token, NETWORK), SYMBOL);
