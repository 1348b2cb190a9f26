/** Where the process listens, each address once, and with which certificates. */
import type { Context } from "../reading/context.ts";
import type { ConfigDocument } from "../reading/document.ts";
import { readSecretFile } from "../reading/environment.ts";
import { keyPairFault } from "../facilitator/key-pair.ts";
import { fault } from "../reading/reading.ts";
import type { AdminSettings, ListenAddress, ListenerTls, ListenerSettings } from "../settings.ts";
import type { Path } from "../reading/tree.ts";

type WrittenListener = Exclude<NonNullable<ConfigDocument["listen"]>, readonly unknown[]>;

const DEFAULT_LISTENER: ListenAddress = { host: null, port: 8402 };

function listenAddress(
  written: ListenAddress | { readonly address: ListenAddress },
): ListenAddress {
  return "address" in written ? written.address : written;
}

/** The public listeners. */
export function resolveListen(context: Context): readonly ListenerSettings[] {
  const { document, tree, problems } = context;
  const { listen = DEFAULT_LISTENER } = document;
  if (!Array.isArray(listen)) return [resolveListener(listen, ["listen"], context)];
  if (listen.length === 0 && tree.intact(["listen"])) {
    problems.error(["listen"], fault("bad-value", "must have at least one address"));
  }
  return listen.map((each, index) => resolveListener(each, ["listen", index], context));
}

/** Requests are shown where only this machine can ask, or where the file says so. */
export function resolveAdmin(written: ConfigDocument["admin"]): AdminSettings | null {
  if (written === undefined) return null;
  const { host, port } = listenAddress(written);
  const { timeline, hosts = [] } = "address" in written ? written : {};
  return {
    host,
    port,
    timeline: timeline ?? (host !== null && isLoopback(host)),
    hosts: [...(host === null ? [] : [host]), ...hosts].map((name) => name.toLowerCase()),
  };
}

/** Whether only this machine can reach a listener there; a host as it is written, or as a URL has it. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.[0-9]+){3}|\[?::1\]?|.*\.localhost)$/.test(host);
}

/** One address, at its place in the file. */
export function resolveListener(
  written: WrittenListener,
  path: Path,
  context: Context,
): ListenerSettings {
  const { host, port } = listenAddress(written);
  const tls = "address" in written ? written.tls : undefined;
  if (tls === undefined) return { host, port, tls: null };
  const files = { certFile: context.absolute(tls.cert), keyFile: context.absolute(tls.key) };
  checkKeyPair(files, [...path, "tls"], context);
  return { host, port, tls: files };
}

/** The texts are not kept: the listener reads them when it opens, and again when they change. */
function checkKeyPair({ certFile, keyFile }: ListenerTls, path: Path, context: Context): void {
  const { problems, environment } = context;
  const cert = readSecretFile(certFile, environment.readFile);
  const key = readSecretFile(keyFile, environment.readFile);
  const hint = "write the path of a file in PEM, relative to the folder of this file";
  const unreadable = fault("unreadable-file", "the file cannot be read", hint);
  if (cert === undefined) problems.error([...path, "cert"], unreadable);
  if (key === undefined) problems.error([...path, "key"], unreadable);
  if (cert === undefined || key === undefined) return;
  const found = keyPairFault(cert, key, (environment.now ?? Date.now)());
  if (found === null) return;
  const { severity, part, code, message } = found;
  problems.add(severity, [...path, part], fault(code, `the file ${message}`));
}

interface Named {
  readonly path: Path;
  readonly address: ListenAddress;
}

/** Two listeners on one address: the second would fail at start, or serve what the first should. */
export function checkListeners({ document, problems }: Context): void {
  const { listen, admin, facilitator, routes, sidecar } = document;
  const named: Named[] = [];
  if (Array.isArray(listen)) {
    for (const [index, each] of listen.entries()) {
      named.push({ path: ["listen", index], address: listenAddress(each) });
    }
  } else if (listen !== undefined) {
    named.push({ path: ["listen"], address: listenAddress(listen) });
  } else if (sidecar !== undefined) {
    named.push({ path: ["sidecar", "listen"], address: sidecar.listen });
  } else if (routes !== undefined) {
    named.push({ path: ["listen"], address: DEFAULT_LISTENER });
  }
  if (admin !== undefined) named.push({ path: ["admin"], address: listenAddress(admin) });
  if (typeof facilitator === "object" && facilitator.listen !== undefined) {
    const address = listenAddress(facilitator.listen);
    named.push({ path: ["facilitator", "listen"], address });
  }
  for (const [index, { path, address }] of named.entries()) {
    const rival = named.slice(0, index).find((each) => collide(each.address, address));
    if (rival === undefined) continue;
    const message = `this address is already taken by ${nameOf(rival.path)}`;
    problems.error(path, fault("address-taken", message));
  }
}

function collide(left: ListenAddress, right: ListenAddress): boolean {
  if (left.port !== right.port || left.port === 0) return false;
  return left.host === right.host || left.host === null || right.host === null;
}

function nameOf(path: Path): string {
  return path
    .map((step) => (typeof step === "number" ? `[${step}]` : step))
    .join(".")
    .replaceAll(".[", "[");
}
