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
  type SignInRecords,
  type WorkerLife,
} from "../../src/ledger/ledger.ts";
import type { Upkeep } from "../../src/ledger/upkeep.ts";
import type { Pots } from "../../src/ledger/pots.ts";
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
    upkeep: faultyUpkeep(ledger.upkeep, life, boundary),
    signIns: faultySignIns(ledger.signIns, life, boundary),
    pots: faultyPots(ledger.pots, life, boundary),
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
  const call = callsTo(signing, life, boundary);
  return {
    lease: call("lease"),
    unlease: call("unlease"),
    hasSigned: call("hasSigned"),
    spends: call("spends"),
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
    replaced: call("replaced"),
    concluded: call("concluded"),
    unfinished: call("unfinished"),
    unattended: call("unattended"),
    nextAccountNonce: call("nextAccountNonce"),
  };
}

function faultyQueues(queues: Queues, life: Life, boundary: Boundary): Queues {
  const call = callsTo(queues, life, boundary);
  return {
    handedOvers: call("handedOvers"),
    doubted: call("doubted"),
    offers: call("offers"),
    refunds: call("refunds"),
    offered: (signal) => whileAlive(life, queues.offered(signal)),
  };
}

function faultyUpkeep(upkeep: Upkeep, life: Life, boundary: Boundary): Upkeep {
  const call = callsTo(upkeep, life, boundary);
  return {
    resolveAsked: call("resolveAsked"),
    reap: call("reap"),
    sweep: call("sweep"),
    forget: call("forget"),
  };
}

function faultySignIns(
  signIns: SignInRecords,
  life: Life,
  boundary: Boundary,
  slowMs?: number,
): SignInRecords {
  const call = callsTo(signIns, life, boundary, slowMs);
  return {
    key: call("key"),
    bought: call("bought"),
    purchases: call("purchases"),
    use: call("use"),
  };
}

/** A worker's share, in the process that has the ledger. */
function faultyWorker(worker: WorkerLife, life: Life, boundary: Boundary): WorkerLife {
  const call = callsTo(worker, life, boundary, STATEMENT_MS);
  return {
    pots: faultyPots(worker.pots, life, boundary, STATEMENT_MS),
    step: stepOf(worker, life, boundary, STATEMENT_MS),
    answer: call("answer"),
    recall: call("recall"),
    buried: call("buried"),
    noteUsedElsewhere: call("noteUsedElsewhere"),
    signIns: faultySignIns(worker.signIns, life, boundary, STATEMENT_MS),
    end: call("end"),
    changed: (key, version, signal) => whileAlive(life, worker.changed(key, version, signal)),
  };
}

function faultyPots(pots: Pots, life: Life, boundary: Boundary, slowMs?: number): Pots {
  const call = callsTo(pots, life, boundary, slowMs);
  return { draw: call("draw"), balances: call("balances") };
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
