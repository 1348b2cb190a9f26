/** Parts of the memory ledger that have nothing to do with payments. */
import { LONGEST_LEASE_MS, type KeptCertificates } from "../../src/ledger/certificates.ts";
import type { Pause, Pauses } from "../../src/ledger/pauses.ts";
import type { Time } from "../../src/time/time.ts";
import type { MemoryStore } from "./memory-store.ts";

export function pausesIn({ pauses }: MemoryStore, time: Pick<Time, "now">): Pauses {
  const list = async (): Promise<readonly Pause[]> =>
    [...pauses.values()]
      .filter(({ untilMs }) => untilMs === null || untilMs > time.now())
      .toSorted((one, other) => one.sinceMs - other.sinceMs);
  return {
    list,
    pause: async (pause) => void pauses.set(pause.scope, pause),
    resume: async (scope) => {
      const ended = (await list()).filter((each) => scope === undefined || each.scope === scope);
      for (const each of ended) pauses.delete(each.scope);
      return ended.length;
    },
  };
}

export function certificatesIn(
  { certificates }: MemoryStore,
  time: Pick<Time, "now">,
): KeptCertificates {
  const { texts, lease } = certificates;
  return {
    revision: async () => String(certificates.revision),
    list: async () =>
      [...texts]
        .map(([name, text]) => ({ name, text }))
        .toSorted((one, other) => (one.name < other.name ? -1 : 1)),
    put: async ({ name, text }) => {
      texts.set(name, text);
      certificates.revision += 1;
    },
    remove: async (name) => {
      if (texts.delete(name)) certificates.revision += 1;
    },
    lease: async (holder, untilMs) => {
      const leftMs = lease.untilMs - time.now();
      if (lease.holder !== holder && leftMs > 0 && leftMs <= LONGEST_LEASE_MS) return false;
      Object.assign(lease, { holder, untilMs });
      return true;
    },
  };
}
