/** Why a gateway could not start, and what its operator can do about it. */
import type { Config } from "../config/config.ts";
import { messageOf } from "../x402/result.ts";

/** Of addresses, by the system's code. */
const ADDRESS: ReadonlyMap<string, string> = new Map([
  ["EADDRINUSE", "another process listens there: stop it, or give this one another address"],
  ["EADDRNOTAVAIL", "this machine has no such address: name one that it has, or only the :port"],
  [
    "EACCES",
    "ports below 1024 need a right (setcap cap_net_bind_service=+ep on node, or AmbientCapabilities of systemd): " +
      "give it, or take a higher port",
  ],
]);

/** One line with the reason, and one with the repair where one is known; each ends with a line break. */
export function startFault(
  cause: unknown,
  { file, store }: { readonly file: string } & Pick<Config, "store">,
): string {
  const reason = messageOf(cause);
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  const known =
    typeof code === "string" && reason.includes("listen") ? ADDRESS.get(code) : undefined;
  if (known !== undefined) return `${reason}\n  ${known}\n`;
  if (code !== "LEDGER_UNAVAILABLE") return `${reason}\n`;
  const place = store.kind === "sqlite" ? store.path : store.place;
  const where = reason.includes(place) ? "" : ` (${place})`;
  return `${reason}${where}\n  coinslot doctor ${file} says what is wrong with its store, and what to do\n`;
}
