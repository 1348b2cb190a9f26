/** Pots in memory, judged as in every store. */
import type { Entry } from "../../src/ledger/accounts.ts";
import {
  CreditsSums,
  fillEntries,
  pourEntries,
  useEntries,
  type CreditsSum,
} from "../../src/ledger/credit-entries.ts";
import { LedgerUnavailable } from "../../src/ledger/ledger-fault.ts";
import { processOf } from "../../src/ledger/life.ts";
import type { PaymentRow } from "../../src/ledger/payment-row.ts";
import {
  creditsPotsOf,
  quotasOf,
  judgeDraw,
  openedPot,
  poured,
  readFill,
  requireDraws,
  returned,
  TURNS_KEPT_MS,
  type PotFill,
  type PotLease,
  type PotRow,
  type Pots,
  type Pour,
} from "../../src/ledger/pots.ts";
import type { Time } from "../../src/time/time.ts";
import type { MemoryStore } from "./memory-store.ts";

export class MemoryPotTables {
  readonly pots = new Map<string, PotRow>();
  /** By holder, and by pot. */
  readonly leases = new Map<string, Map<string, PotLease & { readonly atMs: number }>>();
  readonly fills = new Set<string>();
  /** Lives of workers that have ended. */
  readonly ended = new Set<string>();

  /** Once for each payment; the entries that it makes. */
  pour(given: {
    readonly key: string;
    readonly fill: PotFill;
    readonly route: string | null;
    readonly nowMs: number;
  }): readonly Entry[] {
    const { key, fill, route, nowMs } = given;
    if (this.fills.has(key)) return [];
    this.fills.add(key);
    const pot = this.pots.get(fill.pot);
    const next = pot === undefined ? openedPot(fill) : { ...pot, free: pot.free + fill.amount };
    this.pots.set(fill.pot, next);
    return fillEntries(fill, route, nowMs);
  }

  /** What a refund takes out, or puts back; the entries that it makes. */
  move(row: PaymentRow, pours: Pour, nowMs: number): readonly Entry[] {
    const { pot: name } = readFill(row.fills ?? "");
    if (pours.way !== "none") this.pots.set(name, poured(this.pots.get(name), pours));
    return pourEntries(row, pours, nowMs);
  }

  leasesOf(life: string): Map<string, PotLease & { readonly atMs: number }> {
    const leases = this.leases.get(life) ?? new Map();
    this.leases.set(life, leases);
    return leases;
  }

  returnLeases(isOver: (life: string) => boolean): void {
    for (const [life, leases] of this.leases) {
      if (!isOver(life)) continue;
      for (const [name, { held }] of leases) {
        const pot = this.pots.get(name);
        if (pot !== undefined) this.pots.set(name, returned(pot, held));
      }
      this.leases.delete(life);
    }
  }

  /** What dead lives have leased is there again; pots that have ended are gone. */
  reap(dead: ReadonlySet<string>, nowMs: number): void {
    this.returnLeases((life) => dead.has(processOf(life)));
    for (const leases of this.leases.values()) {
      for (const [name, { held, atMs }] of leases) {
        if (held === 0n && atMs < nowMs - TURNS_KEPT_MS) leases.delete(name);
      }
    }
    for (const [name, { free, leased, untilMs }] of this.pots) {
      const isLeased = [...this.leases.values()].some((leases) => leases.has(name));
      if (free + leased === 0n && untilMs === null && !isLeased) this.pots.delete(name);
    }
    for (const [name, { untilMs }] of this.pots) {
      if (untilMs === null || untilMs >= nowMs - TURNS_KEPT_MS) continue;
      this.pots.delete(name);
      for (const leases of this.leases.values()) leases.delete(name);
    }
  }

  hasCredits(payer: string): boolean {
    return creditsPotsOf(payer).some((name) => {
      const { free = 0n, leased = 0n } = this.pots.get(name) ?? {};
      return free + leased > 0n;
    });
  }

  /** Those with nothing in them, and what he has for nothing. */
  forget(payer: string): void {
    for (const name of creditsPotsOf(payer)) {
      const { free = 0n, leased = 0n } = this.pots.get(name) ?? {};
      if (free + leased === 0n) this.pots.delete(name);
    }
    for (const [from, to] of quotasOf(payer)) {
      for (const [name, { leased }] of this.pots)
        if (name > from && name < to && leased === 0n) this.pots.delete(name);
    }
  }

  sums(entries: readonly Entry[]): readonly CreditsSum[] {
    const sums = new CreditsSums();
    for (const [name, pot] of this.pots) sums.addPot(name, pot);
    for (const entry of entries) if (entry.kind.startsWith("credits ")) sums.addEntry(entry);
    return sums.list();
  }
}

/** The view of one life. */
export function potsIn(store: MemoryStore, time: Pick<Time, "now">, life: string): Pots {
  const { pots } = store;
  return {
    async draw(draws) {
      requireDraws(draws);
      store.requireAlive(life);
      if (pots.ended.has(life)) throw new LedgerUnavailable("this life is over");
      const nowMs = time.now();
      return draws.map((draw) => {
        const { pot: name } = draw;
        const leases = pots.leasesOf(life);
        const judged = judgeDraw(pots.pots.get(name), leases.get(name), draw, { life, nowMs });
        if (judged.pot !== undefined) pots.pots.set(name, judged.pot);
        if (judged.lease === null) leases.delete(name);
        else if (judged.lease !== undefined) leases.set(name, { ...judged.lease, atMs: nowMs });
        store.closed.push(...useEntries(name, judged, nowMs));
        return judged.drawn;
      });
    },
    async balances(names) {
      const found = names.flatMap((name) => {
        const pot = pots.pots.get(name);
        return pot === undefined ? [] : ([[name, pot]] as const);
      });
      return new Map(found);
    },
  };
}
