/**
 * A ledger behind a boundary: every call takes its time, may fail, and may be the last one. A
 * signing that fails is rolled back after the bytes were made.
 */
import {
  LedgerUnavailable,
  type Lease,
  type Ledger,
  type Queues,
  type Signing,
  type WorkerLife,
} from "../../src/ledger/ledger.ts";
import { over } from "../support/over.ts";
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
  ledger: Ledger,
  life: Life,
  boundary: Boundary,
  { onSigned }: LedgerWatch,
): Ledger {
  const call = callsTo(ledger, life, boundary);
  return {
    books: ledger.books,
    sold: ledger.sold,
    budgets: ledger.budgets,
    pauses: ledger.pauses,
    certificates: ledger.certificates,
    outbox: ledger.outbox,
    signing: faultySigning(ledger.signing, life, boundary, onSigned),
    queues: faultyQueues(ledger.queues, life, boundary),
    upkeep: callsOf(ledger.upkeep, life, boundary),
    signIns: callsOf(ledger.signIns, life, boundary),
    pots: callsOf(ledger.pots, life, boundary),
    worker: (name) => faultyWorker(ledger.worker(name), life, boundary),
    step: stepOf(ledger, life, boundary),
    answer: call("answer"),
    recall: call("recall"),
    outcome: call("outcome"),
    termsChangedAt: call("termsChangedAt"),
    buried: call("buried"),
    noteUsedElsewhere: call("noteUsedElsewhere"),
    ping: call("ping"),
    close: call("close"),
    changed: (key, version, signal) => whileAlive(life, ledger.changed(key, version, signal)),
  };
}

function faultySigning(
  signing: Signing,
  life: Life,
  boundary: Boundary,
  onSigned: LedgerWatch["onSigned"],
): Signing {
  return over(callsOf(signing, life, boundary), {
    signed: (keys, account, sign, draws) =>
      boundary.cross(life, {
        name: "ledger.signed",
        mostMs: DATABASE_MS,
        fault: unavailable,
        effect: async () => {
          const stored = await signing.signed(keys, account, sign, draws);
          onSigned(life, account);
          return stored;
        },
        undone: () => void rollBack(signing, keys, account, sign).catch(() => undefined),
      }),
  });
}

function faultyQueues(queues: Queues, life: Life, boundary: Boundary): Queues {
  return over(callsOf(queues, life, boundary), {
    offered: (signal) => whileAlive(life, queues.offered(signal)),
  });
}

/** A worker's share, in the process that has the ledger. */
function faultyWorker(worker: WorkerLife, life: Life, boundary: Boundary): WorkerLife {
  const call = callsTo(worker, life, boundary, STATEMENT_MS);
  return {
    pots: callsOf(worker.pots, life, boundary, STATEMENT_MS),
    step: stepOf(worker, life, boundary, STATEMENT_MS),
    answer: call("answer"),
    recall: call("recall"),
    buried: call("buried"),
    noteUsedElsewhere: call("noteUsedElsewhere"),
    signIns: callsOf(worker.signIns, life, boundary, STATEMENT_MS),
    end: call("end"),
    changed: (key, version, signal) => whileAlive(life, worker.changed(key, version, signal)),
  };
}

/** Each transition is a boundary of its own, by its kind. */
function stepOf(
  ledger: Pick<Ledger, "step">,
  life: Life,
  boundary: Boundary,
  slowMs?: number,
): Ledger["step"] {
  return (key, transition) =>
    boundary.cross(life, {
      name: `ledger.${transition.kind}`,
      mostMs: DATABASE_MS,
      ...(slowMs === undefined ? {} : { slowMs }),
      fault: unavailable,
      effect: () => ledger.step(key, transition),
    });
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

/** A part of which every method is such a call. */
function callsOf<Part extends object>(
  part: Part,
  life: Life,
  boundary: Boundary,
  slowMs?: number,
): Part {
  const call = callsTo(part, life, boundary, slowMs);
  return new Proxy(part, { get: (_, name) => call(String(name) as keyof Part & string) });
}

function unavailable(): LedgerUnavailable {
  return new LedgerUnavailable("the database did not answer");
}

async function rollBack(signing: Signing, ...given: Parameters<Signing["signed"]>): Promise<void> {
  const [keys, account, sign] = given;
  await signing.signed(keys, account, (nonce) => {
    sign(nonce);
    throw unavailable();
  });
}

async function whileAlive(life: Life, waiting: Promise<void>): Promise<void> {
  await waiting;
  if (!life.isAlive) await never();
}
