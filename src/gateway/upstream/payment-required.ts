/**
 * Whether a backend's own 402 may reach the client. A v1 client parses the body of any 402 as payment
 * requirements and throws on whatever else it finds, so only one that is shaped like them is passed on.
 */

/** Bytes of a 402 body that are read to judge it; a longer one is not payment requirements. */
export const judgedBodyLimit = 64 * 1024;

/** An encoded (compressed) body is judged as it would look to a client that cannot decode it. */
export function isPaymentRequired(body: Buffer): boolean {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString("utf8"));
  } catch {
    return false;
  }
  return (
    typeof parsed === "object" &&
    parsed !== null &&
    "x402Version" in parsed &&
    typeof parsed.x402Version === "number" &&
    "accepts" in parsed &&
    Array.isArray(parsed.accepts)
  );
}
