/** Names of hosts that a server is asked by, as `Host` and `:authority` have them. */
import { isIP } from "node:net";

/** The host of an authority: lower-case, without its port and without the dot that ends a full name. */
function hostOf(authority: string): string {
  return authority.replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
}

/** What is known of names: of an exact one before one of all that are below it. */
export class HostTable<Value> {
  readonly #names = new Map<string, Value>();
  /** By what names end with, each with its dot: `.example.com`. */
  readonly #endings = new Map<string, Value>();

  /** @param entries by `api.example.com`, or `*.example.com` for whatever is below it, at any depth; the first wins */
  constructor(entries: Iterable<readonly [name: string, value: Value]>) {
    for (const [name, value] of entries) {
      const [names, key] = name.startsWith("*.")
        ? [this.#endings, name.slice(1).toLowerCase()]
        : [this.#names, hostOf(name)];
      if (!names.has(key)) names.set(key, value);
    }
  }

  of(authority: string): Value | undefined {
    // As nearly all write it.
    const known = this.#names.get(authority);
    if (known !== undefined) return known;
    const host = hostOf(authority);
    return this.#names.get(host) ?? this.#below(host);
  }

  #below(host: string): Value | undefined {
    if (this.#endings.size === 0) return undefined;
    // From the first dot but for one in front: a wildcard stands for one character at least.
    for (let dot = host.indexOf(".", 1); dot !== -1; dot = host.indexOf(".", dot + 1)) {
      const found = this.#endings.get(host.slice(dot));
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/**
 * Names that are ours. An address names itself and `localhost` the machine that asks, so that no other site can be
 * meant by them; probes and health checks ask so.
 */
export class HostNames {
  readonly #table: HostTable<true>;

  /** @param names as {@link HostTable} has them */
  constructor(names: Iterable<string>) {
    this.#table = new HostTable([...names].map((name) => [name, true] as const));
  }

  /** Undefined or empty: a request that names nobody, as HTTP/1.0 may. */
  has(authority: string | undefined): boolean {
    if (authority === undefined || authority === "") return true;
    return this.#table.of(authority) === true || namesItself(hostOf(authority));
  }
}

function namesItself(host: string): boolean {
  if (host === "localhost" || host.endsWith(".localhost")) return true;
  return isIP(host.replace(/^\[|\]$/g, "")) !== 0;
}
