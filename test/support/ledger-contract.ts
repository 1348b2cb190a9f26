/**
 * What every implementation of the ledger has to do; each runs this suite against itself:
 *
 *     ledgerContract("SQLite", (options) => openSqliteLedger({ ...options, path: pathOf(options.store) }));
 */
import { describe } from "vitest";
import type { Ledger } from "../../src/ledger/ledger.ts";
import type { Time } from "../../src/time/time.ts";
import { describeAccounts } from "../unit/ledger/contract-accounts.ts";
import { describeAgain } from "../unit/ledger/contract-again.ts";
import { describeBooks } from "../unit/ledger/contract-books.ts";
import { describeCertificates } from "../unit/ledger/contract-certificates.ts";
import { describeClaims } from "../unit/ledger/contract-claims.ts";
import { describeDebts } from "../unit/ledger/contract-debts.ts";
import { describeAnswered } from "../unit/ledger/contract-answered.ts";
import { describeDeliveries } from "../unit/ledger/contract-deliveries.ts";
import { describeDoubts } from "../unit/ledger/contract-doubts.ts";
import { describeForgetting } from "../unit/ledger/contract-forgetting.ts";
import { describeGuards } from "../unit/ledger/contract-guards.ts";
import { describeHeld } from "../unit/ledger/contract-held.ts";
import { describeIdentifiers } from "../unit/ledger/contract-identifiers.ts";
import { describeLives } from "../unit/ledger/contract-lives.ts";
import { describeOffers } from "../unit/ledger/contract-offers.ts";
import { describeOutbox } from "../unit/ledger/contract-outbox.ts";
import { describePots } from "../unit/ledger/contract-pots.ts";
import { describePurses } from "../unit/ledger/contract-purses.ts";
import { describeRefundedCredits } from "../unit/ledger/contract-refunded-credits.ts";
import { describeRefunds } from "../unit/ledger/contract-refunds.ts";
import { describeSequences } from "../unit/ledger/contract-sequences.ts";
import { describeSoldOffers } from "../unit/ledger/contract-sold-offers.ts";
import { describeSignIns } from "../unit/ledger/contract-sign-ins.ts";
import { describeBudgets } from "../unit/ledger/contract-budgets.ts";
import { describeSubmissions } from "../unit/ledger/contract-submissions.ts";
import { describeSweeping } from "../unit/ledger/contract-sweeping.ts";
import { describeWaiting } from "../unit/ledger/contract-waiting.ts";
import { describeWorkers } from "../unit/ledger/contract-workers.ts";

export interface LedgerOptions {
  /**
   * Which database: one that was never named before is new and empty, the same name again is the same
   * payments. Lower-case letters, digits and underscores, at most 40.
   */
  readonly store: string;
  /** Unique to one life of a process; the life is over once its ledger is closed. */
  readonly life: string;
  /** Its `now` stands still unless a test moves it; it sleeps and times out like the system's. */
  readonly time: Time;
  readonly onUnreadable?: (key: string, reason: string) => void;
}

/** What an implementation can be asked beyond the contract. */
export interface LedgerCapabilities {
  /** Whether several lives may have one store open at the same time. */
  readonly severalLives: boolean;
  /** Overwrites the `request` of a stored payment with another text, behind the ledger's back. */
  readonly spoil?: (store: string, key: string, request: string) => Promise<void>;
  /** Stores the targets of a payment as they are given: older programs have stored them with their queries. */
  readonly age?: (store: string, key: string, targets: WholeTargets) => Promise<void>;
}

export interface WholeTargets {
  readonly target: string;
  readonly servedTarget: string | null;
}

export type OpenLedger = (options: LedgerOptions) => Promise<Ledger>;

/** Defines the tests of the suite. A store is asked for in each test; removing them is the caller's. */
export function ledgerContract(
  name: string,
  open: OpenLedger,
  capabilities: LedgerCapabilities,
): void {
  describe(`the ${name} ledger`, () => {
    // Each part apart, so that a test opens the stores of its own part only.
    describe("claims", () => describeClaims(open));
    describe("doubts", () => describeDoubts(open));
    describe("guards", () => describeGuards(open));
    describe("identifiers", () => describeIdentifiers(open, capabilities));
    describe("sign-ins", () => describeSignIns(open, capabilities));
    describe("certificates", () => describeCertificates(open, capabilities));
    describe("budgets", () => describeBudgets(open, capabilities));
    describe("pots", () => describePots(open, capabilities));
    describe("deliveries", () => describeDeliveries(open));
    describe("what is answered before it is settled", () => describeAnswered(open));
    describe("sold goods", () => describeAgain(open, capabilities));
    describe("debts", () => describeDebts(open));
    describe("submissions", () => describeSubmissions(open));
    describe("purses", () => describePurses(open));
    describe("held payments", () => describeHeld(open));
    describe("refunds", () => describeRefunds(open));
    describe("refunds of credits", () => describeRefundedCredits(open, capabilities));
    describe("offers", () => describeOffers(open));
    describe("the outbox", () => describeOutbox(open, capabilities));
    describe("waiting", () => describeWaiting(open));
    describe("books", () => describeBooks(open));
    describe("accounts", () => describeAccounts(open));
    describe("lives", () => describeLives(open, capabilities));
    describe("workers", () => describeWorkers(open));
    describe("sold offers", () => describeSoldOffers(open));
    describe("sweeping", () => describeSweeping(open));
    describe("forgetting", () => describeForgetting(open));
    describe("sequences", () => describeSequences(open));
  });
}
