import { ledgerContract } from "../support/ledger-contract.ts";
import { MemoryLedger, MemoryStore } from "../support/memory-ledger.ts";

const stores = new Map<string, MemoryStore>();

ledgerContract(
  "memory",
  async ({ store: name, ...options }) => {
    const store = stores.get(name) ?? new MemoryStore();
    stores.set(name, store);
    return new MemoryLedger({ store, ...options });
  },
  { severalLives: true },
);
