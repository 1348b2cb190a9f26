/** Every statement of the PostgreSQL ledger, as they were sent while tests ran, and how the server would run them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import type { Statement } from "../../../src/ledger/postgres/postgres-database.ts";

const LEDGER = join(import.meta.dirname, "../../../src/ledger/postgres");

/** Collects what is sent under a name from now on. */
export function collectStatements(): ReadonlyMap<string, Statement> {
  const statements = new Map<string, Statement>();
  const original: (...sent: unknown[]) => unknown = Reflect.get(Client.prototype, "query");
  Reflect.set(
    Client.prototype,
    "query",
    function query(this: unknown, ...sent: unknown[]): unknown {
      const [first] = sent;
      if (typeof first === "object" && first !== null && "name" in first && "text" in first) {
        const [name, text] = [String(first.name), String(first.text)];
        statements.set(name, { name, text });
      }
      return Reflect.apply(original, this, sent);
    },
  );
  return statements;
}

/** Names that stand in the sources. */
export function namesInSources(): readonly string[] {
  const files = readdirSync(LEDGER).filter((name) => /^postgres.*\.ts$/.test(name));
  return files.flatMap((file) => {
    const text = readFileSync(join(LEDGER, file), "utf8");
    const found = text.matchAll(/(?:Statement = \{\s*name: |moving\(\s*)"([a-z_]+)"/g);
    return [...found].map(([, name = ""]) => name);
  });
}

/** Tables that grow with the sales. */
const GROWING = new Set(
  "payments payment_events responses submissions submission_transactions tombstones".split(" "),
);
/** Indexes that hold only what is under way or waits for somebody. */
const SMALL_INDEXES = new Set(
  (
    "held_payments offered_payments undelivered_payments awaited_payments payments_held " +
    "unfinished_submissions"
  ).split(" "),
);
/**
 * Of all payments the newest; and those of some states, since the server knows how many there are of each, and goes
 * through the payments in their order where most are wanted. Both end with their limit.
 */
const IN_ORDER = new Set(["payments_by_time", "owed_payments"]);
const NEWEST = /^list_(?:state\d+_)?(?:unheld_)?payments$/;

interface Node {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly Plans?: readonly Node[];
}

/** Steps that look at a whole table, or at all of an index that grows with the sales. */
export async function scansIn(
  client: Client,
  { name, text }: Statement,
): Promise<readonly string[]> {
  if (!/\b(?:SELECT|INSERT|UPDATE|DELETE)\b/.test(text)) return [];
  const { rows } = await client.query(`EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${text}`);
  const [plan] = Object(rows[0])["QUERY PLAN"];
  const found: string[] = [];
  const visit = (node: Node): void => {
    const { "Relation Name": table = "", "Index Name": index = "" } = node;
    const isWhole =
      node["Node Type"] === "Seq Scan" || (index !== "" && node["Index Cond"] === undefined);
    const isBounded = SMALL_INDEXES.has(index) || (IN_ORDER.has(index) && NEWEST.test(name));
    // A bitmap's heap is read where its index says so, and has no name of its own there.
    const isGrowing = table === "" ? index !== "" : GROWING.has(table);
    if (isWhole && isGrowing && !isBounded) found.push(`${node["Node Type"]} ${table} ${index}`);
    node.Plans?.forEach(visit);
  };
  visit(plan.Plan);
  return found;
}
