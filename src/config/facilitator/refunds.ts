/** `refunds`: with which key what was paid is paid back, how much of it on one day, and when without being asked. */
import { z } from "zod";
import type { AtomicAmount } from "../../x402/amount.ts";
import type { Network } from "../../x402/network.ts";
import { networkOf } from "../../x402/network.ts";
import { readNativePrice } from "../routes/price.ts";
import type { Context } from "../reading/context.ts";
import { bad, fault } from "../reading/reading.ts";
import { described, flag, map, matching, optional, reader } from "../reading/shapes.ts";
import type { Settler } from "./embedded.ts";
import { oneSigner, readSigner, type Signer } from "./private-key.ts";

export interface RefundSettings {
  /** The key of each family of networks; null: there nothing is paid back by us. */
  readonly signers: Readonly<Record<Network["kind"], Signer | null>>;
  /** Of each token on each network on one day (UTC): whole tokens, in 10^-18 of them. */
  readonly maxPerDay: AtomicAmount;
  /** Whether what the last attempt did not deliver is paid back by itself. */
  readonly automatic: boolean;
}

const MAX_FORM = "must be an amount such as $100";

export const refunds = map({
  signer: described(
    map({
      evm: optional(oneSigner, "The key on EVM networks: env:NAME or file:PATH."),
      solana: optional(oneSigner, "The keypair on Solana."),
    }),
    "References to the keys that refunds are paid from, each for nothing else: { evm, solana }. They hold the tokens that " +
      "are paid back, and no more than that; the network fees are paid by the signers of facilitator.embedded.",
  ),
  maxPerDay: described(
    reader(
      z.union([z.string(), z.number()], MAX_FORM),
      (written) => {
        const read = readNativePrice(written);
        return read.ok ? read : bad(MAX_FORM, read.error.suggestion);
      },
      matching(/^\$[0-9]+(?:\.[0-9]+)?$/, MAX_FORM, "$100"),
    ),
    "The most that is paid back of one token on one network on one day (UTC), by all who share the ledger: $100 is a " +
      "hundred whole tokens. What is above it waits for you.",
  ),
  automatic: optional(
    flag,
    "Pays back by itself what the last attempt to deliver has not brought because the backend did not answer, or with 500 " +
      "and above; after an answer of 400 to 499, or where the buyer left, you decide. To one payer as much on one day as a " +
      "tenth of maxPerDay, or one payment. Without it: you ask for each refund.",
    false,
  ),
});

type WrittenRefunds = z.output<typeof refunds>;

/** Null: nothing is paid back by us. */
export function resolveRefunds(
  written: WrittenRefunds | undefined,
  settlers: readonly Settler[],
  context: Context,
): RefundSettings | null {
  if (written === undefined) return null;
  const { signer, maxPerDay, automatic } = written;
  const keyOf = (kind: Network["kind"]): Signer | null => {
    const reference = signer[kind];
    if (reference === undefined) return null;
    const path = ["refunds", "signer", kind];
    const ofKind = settlers.filter((each) => each.kind === kind);
    const testnet = ofKind.every(({ network }) => networkOf(network).testnet);
    const found = readSigner({ kind, testnet }, reference, path, context);
    const { problems, tree } = context;
    if (ofKind.length === 0 && tree.intact(["facilitator"])) {
      const message = "pays nothing back: no such network is settled in this process";
      const hint = "add one to facilitator.embedded.networks, or remove this key";
      problems.error(path, fault("unused-key", message, hint));
    }
    const isTaken = ofKind.some(({ signers }) =>
      signers.some(({ key }) => key.reveal() === found?.key.reveal()),
    );
    if (isTaken) {
      const message = "this is the key of a signer that pays network fees";
      problems.error(path, fault("duplicate-entry", message, "give refunds a key of their own"));
    }
    return found ?? null;
  };
  const signers = { evm: keyOf("evm"), solana: keyOf("solana") };
  const isEmpty = signer.evm === undefined && signer.solana === undefined;
  if (isEmpty && context.tree.intact(["refunds", "signer"])) {
    const message = "must have a key: evm or solana";
    context.problems.error(["refunds", "signer"], fault("bad-value", message));
  }
  return { signers, maxPerDay, automatic };
}
