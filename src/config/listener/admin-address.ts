/**
 * Where the operator's listener of a file is, whatever else is wrong with the file: for a command that talks to
 * a gateway which runs with an earlier version of it, or with secrets that this environment has not.
 */
import type { Environment } from "../reading/environment.ts";
import { LineIndex } from "../reading/line-index.ts";
import { readListenAddress, type ListenAddress } from "./listeners.ts";
import { readSource } from "../reading/source.ts";
import { readYaml } from "../reading/yaml-document.ts";

/** Null where the file has no `admin` that could be read. */
export function readAdminAddress(
  text: string,
  file: string,
  environment: Environment,
): ListenAddress | null {
  const source = readSource(text, file, environment);
  const { tree, syntaxFaults } = readYaml(source, new LineIndex(source), environment);
  const place = tree.find(["admin"])?.kind === "mapping" ? ["admin", "address"] : ["admin"];
  const found = syntaxFaults.length === 0 ? tree.find(place) : undefined;
  if (found?.kind !== "scalar" || found.refused) return null;
  const written = typeof found.value === "number" ? `:${found.value}` : found.value;
  const address = typeof written === "string" ? readListenAddress(written) : undefined;
  return address?.ok ? address.value : null;
}

/** Where this machine reaches a listener: one on every interface is reached on this one. */
export function urlOfAddress({ host, port }: ListenAddress): string {
  return `http://${reachable(host)}:${port}`;
}

function reachable(host: ListenAddress["host"]): string {
  if (host === null || host === "0.0.0.0") return "127.0.0.1";
  if (!host.includes(":")) return host;
  return host === "::" ? "[::1]" : `[${host}]`;
}
