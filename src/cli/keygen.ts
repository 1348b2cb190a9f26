/** `coinslot keygen evm|solana`: a fresh key, in the form that a configuration and `pay` accept. */
import { open } from "node:fs/promises";
import { freshKey } from "../buyer/buyer-key.ts";
import { toJson } from "./payments/payment-text.ts";
import { fail, print, say } from "./terminal.ts";
import { messageOf } from "../x402/result.ts";

export interface KeygenOptions {
  readonly out?: string;
  readonly print?: boolean;
  readonly json?: boolean;
}

/** Resolves with the exit code. */
export async function keygen(family: "evm" | "solana", options: KeygenOptions): Promise<number> {
  const key = freshKey(family);
  if (options.print) {
    print(key.text);
    say(`address ${key.address}`);
    return 0;
  }
  const file = options.out ?? `coinslot-${family}.key`;
  try {
    await writeKey(file, key.text);
  } catch (cause) {
    const isThere = cause instanceof Error && "code" in cause && cause.code === "EEXIST";
    return fail(
      "keygen",
      isThere
        ? `${file} exists already, and a key is never overwritten: name another --out`
        : `the key could not be written, and there is none now: ${messageOf(cause)}`,
    );
  }
  if (options.json) process.stdout.write(toJson({ family, address: key.address, file }));
  else print(key.address);
  say(`the key is in ${file}, readable for you only; write file:${file} where it is needed`);
  say(
    "to pay with it, send that address USDC; to settle with it, a little of the network's own currency",
  );
  return 0;
}

/** Creates the file for its owner alone. Rejects where there is one already, whatever it is. */
export async function writeKey(file: string, text: string): Promise<void> {
  await using handle = await open(file, "wx", 0o600);
  // The process's umask may have taken away more than is meant.
  await handle.chmod(0o600);
  await handle.writeFile(`${text}\n`);
  await handle.sync();
}
