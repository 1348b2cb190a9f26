/**
 * Sends signed bytes to every endpoint at once (`sendTransaction`). No node simulates them again, and none
 * repeats them: whoever sends does that, every two seconds, until they are in a block or expired.
 */
import type { SignedTransaction } from "../mechanism.ts";
import type { WritableEndpoint } from "../rpc-endpoints.ts";
import { RpcRefusal } from "../rpc.ts";

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
  const sendings = targets.map((target) => sendTo(target, signed, signal));
  await Promise.any(sendings).catch((cause: unknown) => {
    throw reasonOf(cause);
  });
}

async function sendTo(
  { rpc, ready }: WritableEndpoint,
  { raw }: SignedTransaction,
  signal: AbortSignal,
): Promise<void> {
  await ready;
  const options = { encoding: "base64", skipPreflight: true, maxRetries: 0 };
  try {
    await rpc.call("sendTransaction", [raw, options], signal);
  } catch (error) {
    if (!isPossiblySent(error)) throw error;
  }
}

function isPossiblySent(error: unknown): boolean {
  if (!(error instanceof RpcRefusal)) return false;
  return POSSIBLY_SENT.test(`${error.rpcMessage} ${JSON.stringify(error.data ?? "")}`);
}

/** The first endpoint's own error, but rather a node's refusal than no answer: it says more. */
function reasonOf(cause: unknown): unknown {
  if (!(cause instanceof AggregateError)) return cause;
  const errors: readonly unknown[] = cause.errors;
  return errors.find((error) => error instanceof RpcRefusal) ?? errors[0];
}
