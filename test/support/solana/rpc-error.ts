/** The JSON-RPC errors of a Solana node, with the codes and words of Agave. */

export const INVALID_REQUEST = -32_600;
export const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;
export const INTERNAL_ERROR = -32_603;
export const PARSE_ERROR = -32_700;
/** `sendTransaction` whose simulation failed; `data` is the simulation's result. */
export const PREFLIGHT_FAILURE = -32_002;
/** A transaction of a version that the caller did not say that it can read. */
export const UNSUPPORTED_TRANSACTION_VERSION = -32_015;
/** `minContextSlot` lies ahead of the node; `data` is `{ contextSlot }`. */
export const MIN_CONTEXT_SLOT_NOT_REACHED = -32_016;

/** What an answer's `error` holds. */
export interface RpcErrorBody {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** Thrown by a method, becomes the `error` of its answer. */
export class RpcError extends Error {
  override readonly name = "RpcError";
  readonly body: RpcErrorBody;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.body = data === undefined ? { code, message } : { code, message, data };
  }
}

export function invalidParams(message: string): RpcError {
  return new RpcError(INVALID_PARAMS, message);
}
