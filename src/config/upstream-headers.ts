/** Which header lines a configuration may set for a backend or keep from crossing. */
import type { Fault } from "./problem.ts";
import { fault } from "./reading.ts";

/** The gateway writes these, or their absence is a promise: they belong to one connection, or to a payment. */
const OWN =
  /^(?:connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|expect|content-length|content-encoding|proxy-.*|sec-websocket-.*|x-payment.*|x-402-.*)$/;
/** Who the client is, as far as is proven. */
const CLIENT = /^(?:forwarded|x-forwarded-.*|x-real-ip)$/;
/** Backends serve another path or method for these than the one that was priced. */
const REROUTING =
  /^x-(?:http-(?:method(?:-override)?|path-override)|method-override|(?:envoy-)?original-(?:host|method|path|ur[il])|rewrite-url)$/;

/** The fault of a lower-case name; undefined where it may be set, or removed. */
export function crossingNameFault(name: string, use: "set" | "remove"): Fault | undefined {
  const code = "bad-header";
  if (name === "host") {
    return fault(code, "Host has a key of its own", "write host: NAME beside headers");
  }
  if (OWN.test(name)) return fault(code, "this header is the gateway's own");
  if (CLIENT.test(name)) {
    return fault(code, "this header says who the client is: the gateway writes it");
  }
  if (REROUTING.test(name)) {
    return fault(code, "this header asks for another path or method than the one that is priced");
  }
  if (use === "set" && name === "idempotency-key") {
    return fault(code, "this header is different for each payment: the gateway writes it");
  }
  return undefined;
}
