/**
 * How each proxy hands over the request that it asks about, and what it can pass on of our answer. The
 * configuration names the proxy; nothing is guessed from what arrives, so that a client cannot speak for it.
 */

export type SidecarProxy = "nginx" | "haproxy" | "caddy" | "traefik" | "envoy";

export interface Dialect {
  /** Lower-case names of the two lines; null: the check's own method, and its path behind the prefix. */
  readonly lines: { readonly method: string; readonly uri: string } | null;
  /** Lower-case name of the line with the host that the client asks; null: the check's own Host is that. */
  readonly host: "x-forwarded-host" | null;
  /**
   * What becomes of an answer that lets nothing pass.
   * - `held`: the proxy knows no other refusal than 401, and fetches the answer in a second step.
   * - `any`: passed on as it is, whatever its status; the proxy tells a pass by its header.
   * - `refusal`: passed on as it is, but a status of 200 to 299 would be taken for a pass.
   */
  readonly answers: "held" | "any" | "refusal";
}

/** Written by our own recipes. */
const ORIGINAL = { method: "x-original-method", uri: "x-original-uri" } as const;
/** Written by the proxies themselves. */
const FORWARDED = { method: "x-forwarded-method", uri: "x-forwarded-uri" } as const;

export const DIALECTS: Readonly<Record<SidecarProxy, Dialect>> = {
  nginx: { lines: ORIGINAL, host: null, answers: "held" },
  haproxy: { lines: ORIGINAL, host: null, answers: "any" },
  caddy: { lines: FORWARDED, host: "x-forwarded-host", answers: "refusal" },
  traefik: { lines: FORWARDED, host: "x-forwarded-host", answers: "refusal" },
  envoy: { lines: null, host: null, answers: "refusal" },
};
