/** Configuration -> what the gateway believes and bears of its clients. */
import type { Config } from "../config/config.ts";
import type { RequestRate } from "../config/limits.ts";
import { TrustedProxies } from "../gateway/client/trusted-proxies.ts";
import type { GatewayOptions } from "../gateway/work.ts";

/**
 * @param fronts how many count for themselves. Together they take as many unpaid requests of one address as
 *   the limit says; at once, each of them takes that many, since the connections of one client may all be one's.
 */
export function clientOptions(
  { trustedProxies, limits }: Pick<Config, "trustedProxies" | "limits">,
  fronts: number,
): Pick<GatewayOptions, "trustedProxies" | "unpaidRates" | "bodyLimits" | "answerLimits"> {
  const { unpaidPerIp, unprovenPerIp, bodyIdleMs, bodyTimeoutMs, bodyBytesPerSecond } = limits;
  const { answerIdleMs, answerBytesPerSecond } = limits;
  return {
    trustedProxies: new TrustedProxies(trustedProxies),
    unpaidRates: {
      asked: shared(unpaidPerIp, fronts),
      refused: shared(unpaidPerIp, fronts),
      unproven: shared(unprovenPerIp, fronts),
    },
    bodyLimits: {
      idleMs: bodyIdleMs,
      totalMs: bodyTimeoutMs,
      bytesPerSecond: bodyBytesPerSecond,
    },
    answerLimits: { graceMs: answerIdleMs, bytesPerSecond: answerBytesPerSecond },
  };
}

function shared(rate: RequestRate | null, fronts: number): RequestRate | null {
  return rate && { ...rate, perMs: rate.perMs * fronts };
}
