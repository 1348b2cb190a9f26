/** What `npm run bench:sizing -- --write` has measured, as it is kept beside the paper. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../report.ts";

const FILE = join(ROOT, "deploy/sizing.json");

/** CPU, microseconds: of the gateway's processes, of PostgreSQL's, and of the local node of the network. */
export interface Cost {
  readonly gateway: number;
  readonly postgres: number;
  readonly node: number;
}

/** For one answer, above what the same processes take when nobody asks. */
export interface KindCost extends Cost {
  /** Of `gateway`, what the one thread took that has the money; it is the one that no second core helps. */
  readonly thread: number;
}

/** A sale, whose transaction carried so many. */
export interface SaleCost extends KindCost {
  readonly together: number;
}

/** A sale at a replica whose signers another one holds. */
export interface ElsewhereCost extends SaleCost {
  /** Of `gateway` and `thread`, those of the replica that signs. */
  readonly signing: { readonly gateway: number; readonly thread: number };
  /**
   * What a replica takes that has nothing to do with a sale, and only hears of it: where it is signed where it was
   * asked for, and where it is offered to the others.
   */
  readonly bystander: { readonly local: number; readonly offered: number };
}

export interface Figures {
  readonly measured: {
    /** YYYY-MM-DD. */
    readonly date: string;
    readonly coinslot: string;
    readonly machine: string;
    readonly node: string;
    readonly postgres: string;
    readonly evmNode: string;
    /** Share of the machine, 0 to 1, that others kept busy. */
    readonly others: number;
  };
  /** For a second in which nobody asks: one process, and a replica with two workers. */
  readonly idle: { readonly process: Cost; readonly replica: Cost };
  /** For one transaction and second, while it is in a block and not final. */
  readonly watching: Cost;
  /** By the names of `KINDS`. */
  readonly kinds: Readonly<Record<string, KindCost>>;
  readonly sales: {
    /** One process, PostgreSQL: few a second, and many. */
    readonly slow: SaleCost;
    readonly fast: SaleCost;
    readonly sqlite: SaleCost;
    /** A replica with two workers. */
    readonly workers: SaleCost;
    readonly elsewhere: ElsewhereCost;
  };
  /** For one sale. */
  readonly writes: {
    readonly inserted: number;
    readonly updated: number;
    readonly deleted: number;
    readonly commits: number;
    readonly walBytes: number;
    readonly tableBytes: number;
    readonly sqliteBytes: number;
  };
  /** Of one replica at its busiest; workers have none. */
  readonly connections: number;
  readonly check: {
    readonly replicas: number;
    readonly workers: number;
    /** Asked for, and sold, each second. */
    readonly asked: number;
    readonly sold: number;
    readonly seconds: number;
    readonly blockSeconds: number;
    readonly finalBlocks: number;
    readonly together: number;
    readonly p50Ms: number;
    readonly p99Ms: number;
    /** For one sale, all of it. */
    readonly cost: Cost;
  };
}

export function readFigures(): Figures {
  return JSON.parse(readFileSync(FILE, "utf8"));
}

export function writeFigures(figures: Figures): void {
  writeFileSync(FILE, `${JSON.stringify(rounded(figures), null, 2)}\n`);
}

/** Three digits are more than a second run gives again. */
function rounded(value: unknown): unknown {
  if (typeof value === "number") return Number(value.toPrecision(3));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, rounded(each)]));
}
