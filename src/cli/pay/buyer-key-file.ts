/** Keys of buyers, by reference: `env:NAME` or `file:PATH`, in the forms that a configuration accepts. */
import { resolve } from "node:path";
import { openPurse, type BuyerKey } from "../../buyer/buyer-key.ts";
import { processEnvironment } from "../../config/reading/environment.ts";
import { findKey, readKey } from "../../config/facilitator/private-key.ts";
import { err, ok, type Result } from "../../x402/result.ts";

/** The key, or a sentence on why there is none; what the reference leads to is never part of it. */
function openKey(reference: string): Result<BuyerKey, string> {
  const found = findKey(reference, { environment: processEnvironment, absolute: resolve });
  if (!found.ok) {
    const { message, suggestion } = found.error;
    // The name of a file by itself is the likeliest mistake.
    const hint = /^(?:env|file):/.test(reference) ? suggestion : `a file is written file:PATH`;
    return err(`the key ${hint === undefined ? message : `${message}; ${hint}`}`);
  }
  if (found.value.source === "literal") {
    return err(
      "a key must not stand on the command line, where others see it: write env:NAME or file:PATH",
    );
  }
  for (const kind of ["evm", "solana"] as const) {
    const key = readKey(found.value, kind);
    if (key.ok) return ok(openPurse(kind, key.value));
  }
  return err(
    `${reference} leads to no key: 0x and 64 hex digits for EVM networks, a JSON array of 64 numbers or base58 of 64 bytes for Solana`,
  );
}

const DEFAULT_KEY = "env:COINSLOT_KEY";

/** The key of that reference, else of the environment; null where none was named: what is free needs none. */
export function openKeyOrNone(reference: string | undefined): Result<BuyerKey | null, string> {
  if (reference !== undefined) return openKey(reference);
  const isSet = process.env["COINSLOT_KEY"] ?? process.env["COINSLOT_KEY_FILE"];
  return isSet === undefined ? ok(null) : openKey(DEFAULT_KEY);
}
