/**
 * The memory ledger behind a boundary: every call takes its time, may fail, and may be the last one. A
 * signing that fails is rolled back after the bytes were made.
 */
import { LedgerUnavailable, type Lease, type Ledger } from "../../src/ledger/ledger.ts";
import type { MemoryLedger } from "../support/memory-ledger.ts";
import { never, type Boundary } from "./faults.ts";
import type { Life } from "./virtual-time.ts";

/** Longest way to the database, milliseconds. */
const DATABASE_MS = 3;

type Calls = Omit<Ledger, "books" | "changed" | "sold" | "offered" | "signed" | "worker">;

export interface LedgerWatch {
  /** A life has signed with an account. */
  readonly onSigned: (life: Life, account: Lease) => void;
}

export function faultyLedger(
  ledger: MemoryLedger,
  life: Life,
  boundary: Boundary,
  { onSigned }: LedgerWatch,
): Ledger {
  const call = <Name extends keyof Calls>(name: Name): Calls[Name] =>
    // The parameters go through as they are: one wrapper for all calls.
    ((...parameters: never[]) =>
      boundary.cross<unknown>(life, {
        name: `ledger.${name}`,
        mostMs: DATABASE_MS,
        fault: unavailable,
        effect: () => (ledger[name] as (...given: never[]) => Promise<unknown>)(...parameters),
      })) as Calls[Name];
  return {
    books: ledger.books,
    sold: ledger.sold,
    worker: (name) => ledger.worker(name),
    claim: call("claim"),
    recall: call("recall"),
    leave: call("leave"),
    handedOver: call("handedOver"),
    settled: call("settled"),
    held: call("held"),
    hasSigned: call("hasSigned"),
    resolve: call("resolve"),
    resolveAsked: call("resolveAsked"),
    failed: call("failed"),
    released: call("released"),
    delivering: call("delivering"),
    delivered: call("delivered"),
    undelivered: call("undelivered"),
    replay: call("replay"),
    handedOvers: call("handedOvers"),
    begin: call("begin"),
    outcome: call("outcome"),
    lease: call("lease"),
    unlease: call("unlease"),
    spends: call("spends"),
    signed: (keys, account, sign, draws) =>
      boundary.cross(life, {
        name: "ledger.signed",
        mostMs: DATABASE_MS,
        fault: unavailable,
        effect: async () => {
          const stored = await ledger.signed(keys, account, sign, draws);
          onSigned(life, account);
          return stored;
        },
        undone: () => void rollBack(ledger, keys, account, sign).catch(() => undefined),
      }),
    replaced: call("replaced"),
    concluded: call("concluded"),
    withdrawn: call("withdrawn"),
    abandoned: call("abandoned"),
    offer: call("offer"),
    takeOffered: call("takeOffered"),
    unfinished: call("unfinished"),
    unattended: call("unattended"),
    nextAccountNonce: call("nextAccountNonce"),
    termsChangedAt: call("termsChangedAt"),
    reap: call("reap"),
    sweep: call("sweep"),
    buried: call("buried"),
    noteUsedElsewhere: call("noteUsedElsewhere"),
    ping: call("ping"),
    close: call("close"),
    changed: (key, version, signal) => whileAlive(life, ledger.changed(key, version, signal)),
    offered: (signal) => whileAlive(life, ledger.offered(signal)),
  };
}

function unavailable(): LedgerUnavailable {
  return new LedgerUnavailable("the database did not answer");
}

async function rollBack(
  ledger: MemoryLedger,
  ...given: Parameters<Ledger["signed"]>
): Promise<void> {
  const [keys, account, sign] = given;
  await ledger.signed(keys, account, (nonce) => {
    sign(nonce);
    throw unavailable();
  });
}

async function whileAlive(life: Life, waiting: Promise<void>): Promise<void> {
  await waiting;
  if (!life.isAlive) await never();
}
