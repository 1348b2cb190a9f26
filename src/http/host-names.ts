/** Names of hosts that a server is asked by, as `Host` and `:authority` have them. */
import { isIP } from "node:net";

/** The host of an authority: lower-case, without its port and without the dot that ends a full name. */
function hostOf(authority: string): string {
  return authority.replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
}

/**
 * Names that are ours. An address names itself and `localhost` the machine that asks, so that no other site can be
 * meant by them; probes and health checks ask so.
 */
export class HostNames {
  readonly #names = new Set<string>();
  /** What names end with, each with its dot: `.example.com`. */
  readonly #endings = new Set<string>();

  /** @param names `api.example.com`, or `*.example.com` for whatever is below it, at any depth */
  constructor(names: Iterable<string>) {
    for (const name of names) {
      if (name.startsWith("*.")) this.#endings.add(name.slice(1).toLowerCase());
      else this.#names.add(hostOf(name));
    }
  }

  /** Undefined or empty: a request that names nobody, as HTTP/1.0 may. */
  has(authority: string | undefined): boolean {
    if (authority === undefined || authority === "") return true;
    // As nearly all write it.
    if (this.#names.has(authority)) return true;
    const host = hostOf(authority);
    return this.#names.has(host) || this.#isBelow(host) || namesItself(host);
  }

  #isBelow(host: string): boolean {
    if (this.#endings.size === 0) return false;
    // From the first dot but for one in front: a wildcard stands for one character at least.
    for (let dot = host.indexOf(".", 1); dot !== -1; dot = host.indexOf(".", dot + 1)) {
      if (this.#endings.has(host.slice(dot))) return true;
    }
    return false;
  }
}

function namesItself(host: string): boolean {
  if (host === "localhost" || host.endsWith(".localhost")) return true;
  return isIP(host.replace(/^\[|\]$/g, "")) !== 0;
}
