/** The simulated ledger does what the real ones do, so that what is found on it holds for them. */
import { ledgerContract } from "../../support/ledger-contract.ts";
import { MemoryLedger, MemoryStore } from "../../support/memory-ledger.ts";

const stores = new Map<string, MemoryStore>();

ledgerContract(
  "memory",
  async ({ store, life, time }) => {
    const kept = stores.get(store) ?? new MemoryStore();
    stores.set(store, kept);
    return new MemoryLedger({ store: kept, life, time });
  },
  { severalLives: true },
);
