/**
 * Signed payments that are kept in a file, because what became of them is not known: sent again they cost
 * nothing more. Whoever has the file can buy that one thing with it, so nobody else may read it.
 */
import { createHash } from "node:crypto";
import { open, readFile, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BuyerRequest } from "../../buyer/exchange.ts";
import { placeOf } from "../../buyer/place.ts";
import { decodeEnvelope } from "../../x402/header.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import { isVersion, X402_VERSION, type X402Version } from "../../x402/x402.ts";

export interface KeptPayment {
  /** Without its query, which may hold secrets. */
  readonly url: string;
  readonly method: string;
  /** Of the envelope; files that do not say are of version 1. */
  readonly version: X402Version;
  /** The value of the header, be it `X-PAYMENT` or `PAYMENT-SIGNATURE`. */
  readonly xPayment: string;
  /** What was paid, for people. */
  readonly amount: string;
  readonly network: string;
  readonly payer: string;
  /** Unix seconds; null: not known. */
  readonly validBefore: number | null;
  /** Of its receipt; absent: it is not known that it was paid. */
  readonly transaction?: string;
  /** What the seller said when it did not take the payment any more; absent: it may be sent again. */
  readonly over?: string;
}

/** The largest such file, bytes. */
const MAX_FILE_BYTES = 64 * 1024;
/** Digits of the payment's hash in the file's name. */
const NAME_DIGITS = 8;

/** The path of the file: in that folder, or in the one for temporary files; null where neither works. */
export async function keepPayment(payment: KeptPayment, folder: string): Promise<string | null> {
  const digest = createHash("sha256").update(payment.xPayment).digest("hex");
  const name = `coinslot-payment-${digest.slice(0, NAME_DIGITS)}.json`;
  for (const path of [join(folder, name), join(tmpdir(), name)]) {
    try {
      await using file = await open(path, "w", 0o600);
      await file.chmod(0o600);
      await file.writeFile(`${JSON.stringify(payment, null, 2)}\n`);
      await file.sync();
      return path;
    } catch {
      // The next folder may take it.
    }
  }
  return null;
}

/** A kept payment that is for this request, or a sentence on why there is none. */
export async function readKeptPayment(
  path: string,
  request: BuyerRequest,
): Promise<Result<KeptPayment, string>> {
  const json = await readJson(path);
  const { url, method, xPayment, amount, network, payer, validBefore } = Object(json ?? {});
  const { version = X402_VERSION, transaction, over } = Object(json ?? {});
  const texts: readonly unknown[] = [url, method, xPayment, amount, network, payer];
  if (texts.some((each) => typeof each !== "string")) return err("the file holds no kept payment");
  if (!isVersion(version) || !decodeEnvelope(xPayment, version).ok)
    return err("the payment in the file is damaged");
  if (url !== placeOf(request.url) || method !== request.method) {
    return err(`the payment in the file is for ${method} ${url}, and goes nowhere else`);
  }
  const until = Number.isSafeInteger(validBefore) ? validBefore : null;
  const kept = { url, method, version, xPayment, amount, network, payer, validBefore: until };
  return ok({
    ...kept,
    ...(typeof transaction === "string" && { transaction }),
    ...(typeof over === "string" && { over }),
  });
}

async function readJson(path: string): Promise<unknown> {
  try {
    const { size } = await stat(path);
    return size > MAX_FILE_BYTES ? undefined : JSON.parse(await readFile(path, "utf8"));
  } catch {
    return undefined;
  }
}
