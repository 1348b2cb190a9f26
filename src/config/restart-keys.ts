/** What of a configuration is in force from the start to the end of a process, whatever is reloaded. */
import type { Config } from "./document.ts";

interface Fixed {
  /** In the file. */
  readonly key: string;
  readonly part: (config: Config) => unknown;
  /** What opened with it stays as it was opened. */
  readonly why: string;
}

/** All that only a restart changes; `check`, the verdict on a reload and the paper tell it as it stands here. */
export const NEEDS_RESTART: readonly Fixed[] = [
  { key: "listen", part: ({ listen }) => listen, why: "addresses are opened at the start" },
  { key: "sidecar", part: ({ sidecar }) => sidecar, why: "its address is opened at the start" },
  { key: "admin", part: ({ admin }) => admin, why: "its address is opened at the start" },
  {
    key: "facilitator.listen",
    part: ({ facilitator: { listen, basePath } }) => listen && [listen, basePath],
    why: "its address is opened at the start, with facilitator.basePath",
  },
  {
    key: "facilitator.catalogue",
    part: ({ facilitator: { catalogue, gateways, listen } }) => {
      const listed = gateways.filter(({ urls }) => urls.length > 0);
      return listen === null ? null : [catalogue, listed.map(({ name, urls }) => [name, urls])];
    },
    why: "the listing of others' sales is read at the start, and so are the urls of facilitator.auth.gateways",
  },
  {
    key: "facilitator.foreign",
    part: ({ facilitator }) => facilitator.foreign,
    why: "payments that are looked for go by it from their beginning",
  },
  {
    key: "refunds",
    part: ({ refunds }) => refunds,
    why: "refunds go on by it until they are over",
  },
  { key: "store", part: ({ store, keeping }) => [store, keeping], why: "the ledger stays open" },
  { key: "workers", part: ({ workers }) => workers, why: "they share what the start has opened" },
  {
    key: "logging.format",
    part: ({ logging }) => logging.format,
    why: "standard output is opened with it",
  },
  {
    key: "logging.access",
    part: ({ logging }) => logging.access,
    why: "its file is opened at the start, and opened anew by each reload",
  },
  {
    key: "limits.header",
    part: ({ limits }) => limits.headerBytes,
    why: "listeners are opened with it",
  },
];

/** The list for people, a line for each key. */
export function restartKeys(): readonly string[] {
  return NEEDS_RESTART.map(({ key, why }) => `${key}: ${why}`);
}
