/**
 * The memory ledger behind a boundary: every call takes its time, may fail, and may be the last one. A
 * signing that fails is rolled back after the bytes were made.
 */
import {
  LedgerUnavailable,
  type Lease,
  type Ledger,
  type WorkerLife,
} from "../../src/ledger/ledger.ts";
import type { MemoryLedger } from "../support/memory-ledger.ts";
import { never, type Boundary } from "./faults.ts";
import type { Life } from "./virtual-time.ts";

/** Longest way to the database, milliseconds. */
const DATABASE_MS = 3;
/** After which the real stores give up, milliseconds; a worker waits longer, and may go on then. */
const STATEMENT_MS = 6_000;

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
  const call = callsTo(ledger, life, boundary);
  return {
    books: ledger.books,
    sold: ledger.sold,
    worker: (name) => faultyWorker(ledger.worker(name), life, boundary),
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
    collected: call("collected"),
    unread: call("unread"),
    handedOvers: call("handedOvers"),
    doubted: call("doubted"),
    lookedAgain: call("lookedAgain"),
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

/** A worker's share, in the process that has the ledger. */
function faultyWorker(worker: WorkerLife, life: Life, boundary: Boundary): WorkerLife {
  const call = callsTo(worker, life, boundary, STATEMENT_MS);
  return {
    claim: call("claim"),
    recall: call("recall"),
    handedOver: call("handedOver"),
    settled: call("settled"),
    failed: call("failed"),
    released: call("released"),
    delivering: call("delivering"),
    delivered: call("delivered"),
    undelivered: call("undelivered"),
    replay: call("replay"),
    collected: call("collected"),
    unread: call("unread"),
    handedOvers: call("handedOvers"),
    doubted: call("doubted"),
    lookedAgain: call("lookedAgain"),
    leave: call("leave"),
    buried: call("buried"),
    noteUsedElsewhere: call("noteUsedElsewhere"),
    held: call("held"),
    end: call("end"),
    changed: (key, version, signal) => whileAlive(life, worker.changed(key, version, signal)),
  };
}

type Call = (...given: never[]) => Promise<unknown>;

/** The parameters go through as they are: one wrapper for all calls. */
function callsTo<Called extends object>(
  called: Called,
  life: Life,
  boundary: Boundary,
  slowMs?: number,
) {
  return <Name extends keyof Called & string>(name: Name): Called[Name] => {
    const call: Call = (...parameters) =>
      boundary.cross<unknown>(life, {
        name: `ledger.${name}`,
        mostMs: DATABASE_MS,
        ...(slowMs === undefined ? {} : { slowMs }),
        fault: unavailable,
        effect: () => (called[name] as Call).apply(called, parameters),
      });
    return call as Called[Name];
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
