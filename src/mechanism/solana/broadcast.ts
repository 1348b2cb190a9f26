/**
 * Sends signed bytes to every endpoint at once (`sendTransaction`). No node simulates them again, and none
 * repeats them: whoever sends does that, every two seconds, until they are in a block or expired.
 */
import type { SignedTransaction } from "../mechanism.ts";
import type { WritableEndpoint } from "../rpc-endpoints.ts";
import { RpcRefusal, firstReason } from "../rpc.ts";

/** Answers after which the transaction is on the chain, or on its way there: it was sent before. */
const POSSIBLY_SENT = /already (?:been )?(?:processed|received|submitted|known)|alreadyprocessed/i;

/**
 * Resolves when one node took the bytes or already had them.
 * @throws {ChainError} when none did; also then they may have been sent
 */
export async function send(
  targets: readonly WritableEndpoint[],
  signed: SignedTransaction,
  signal: AbortSignal,
): Promise<void> {
  const sendings = targets.map(async (target) => {
    await target.ready;
    const options = { encoding: "base64", skipPreflight: true, maxRetries: 0 };
    try {
      await target.rpc.call("sendTransaction", [signed.raw, options], signal);
    } catch (error) {
      if (!isPossiblySent(error)) throw error;
    }
  });
  await Promise.any(sendings).catch((cause: unknown) => {
    throw firstReason(cause);
  });
}

function isPossiblySent(error: unknown): boolean {
  if (!(error instanceof RpcRefusal)) return false;
  return POSSIBLY_SENT.test(`${error.rpcMessage} ${JSON.stringify(error.data ?? "")}`);
}
