/** Balances with one promise broken. */
import { caughtBy, type Mutant } from "./mutant.ts";

const WORLDS = "test/simulation/credits/credits.test.ts";
const LEASING = "test/unit/payments/credits/pot-leases.test.ts";
const CONTRACT = "test/unit/ledger/sqlite/sqlite-contract.test.ts";
const JUDGE = "src/ledger/pots.ts";
const ROWS = "src/ledger/sqlite/sqlite-pot-rows.ts";
const STORE = "src/ledger/sqlite/sqlite-pots.ts";
const RESOLUTION = "src/ledger/resolution.ts";
const PLAN = "test/unit/app/refunding-credits.test.ts";
const TEXT = "test/unit/ledger/refunded-credits-text.test.ts";
const BALANCE = "test/integration/cli/pay-balance.test.ts";
const SIGNING_IN = "src/buyer/sign-in.ts";
const REAPING = "src/ledger/sqlite/sqlite-reaping.ts";
const LEASES = "src/payments/credits/pot-leases.ts";
const POT = "src/payments/credits/leased-pot.ts";
const RISK = "src/payments/credits/risk.ts";

export const CREDITS_MUTANTS: readonly Mutant[] = [
  caughtBy(WORLDS, "uses a lease that is not stored", {
    file: ROWS,
    find: "if (pot !== undefined) writePot(database, name, pot);",
    put: "if (pot !== undefined && uses.length > 0) writePot(database, name, pot);",
  }),
  caughtBy(WORLDS, "gives a dead life's lease back twice", {
    file: ROWS,
    find: `    database.run("DELETE FROM pot_leases WHERE holder = ?", [holder]);\n`,
    put: "",
  }),
  caughtBy(WORLDS, "writes what was used twice, where the first answer was lost", {
    file: JUDGE,
    find: "draw.chunks.filter(({ turn }) => turn > (lease?.turn ?? 0))",
    put: "draw.chunks",
  }),
  caughtBy(WORLDS, "gives back what living workers have leased", {
    file: REAPING,
    find: "const isOver = (other: string): boolean => !isOf(other, life);",
    put: "const isOver = (other: string): boolean => other !== life;",
  }),
  caughtBy(
    WORLDS,
    "fills a pot with each settlement of one payment",
    { file: ROWS, find: "  if (isFirst !== 1) return false;\n", put: "" },
    {
      file: "src/ledger/sqlite/sqlite-rows.ts",
      find: "if (fills === null || settledTransaction === null || wasDone) return;",
      put: "if (fills === null || settledTransaction === null) return;",
    },
  ),
  caughtBy(WORLDS, "leases the same to two", {
    file: JUDGE,
    find: "free: pot.free + held - next, leased };",
    put: "free: pot.free, leased };",
  }),
  caughtBy(WORLDS, "forgets at its end what was used", {
    file: LEASES,
    find: "while (this.#isOpen && time.now() < untilMs)",
    put: "while (this.#isOpen && time.now() < 0)",
  }),
  caughtBy(WORLDS, "answers for more than the seller risks", {
    file: RISK,
    find: "this.#taken === 0n || this.#taken + amount <= this.#limit()",
    put: "this.#taken === 0n || this.#taken <= this.#limit()",
  }),
  caughtBy(LEASING, "has requests wait for their part of the risk for ever", {
    file: RISK,
    find: "for (const each of [late, signal]) each?.addEventListener",
    put: "for (const each of [signal]) each?.addEventListener",
  }),
  caughtBy(LEASING, "has any number of requests wait for their part of the risk", {
    file: RISK,
    find: `if (left <= 0 || own >= left) return "busy";`,
    put: `if (left <= -MAX_RISK_WAITING || own >= 512) return "busy";`,
  }),
  caughtBy(LEASING, "has one payer wait in all places for a part of the risk", {
    file: RISK,
    find: `if (left <= 0 || own >= left) return "busy";`,
    put: `if (left <= 0) return "busy";`,
  }),
  caughtBy(LEASING, "gives all pots to strangers who have something for nothing", {
    file: LEASES,
    find: "isStrangers && this.#quotas >= this.#maxPots / 2;",
    put: "isStrangers && this.#quotas >= this.#maxPots;",
  }),
  caughtBy(LEASING, "counts pots of strangers for ever", {
    file: LEASES,
    find: "    if (isQuota(pot.name)) this.#quotas -= 1;\n",
    put: "",
  }),
  caughtBy(LEASING, "lets one payer's slow requests have all of the risk", {
    file: RISK,
    find: "own === 0n || own + amount <= this.#limit() - this.#taken - amount",
    put: "own >= 0n || own + amount <= this.#limit() - this.#taken - amount",
  }),
  caughtBy(LEASING, "has others wait behind who has his share of the risk", {
    file: RISK,
    find: "if (each.who === who || this.#isWithinShare(each.who, each.amount)) return false;",
    put: "if (each.who === who || each.amount > 0n) return false;",
  }),
  caughtBy(LEASING, "keeps at risk what a request had of a lease that was lost", {
    file: LEASES,
    find: "      if (isCounted) this.#risk.give(pot.name, max);\n",
    put: "",
  }),
  caughtBy(WORLDS, "debits what was reserved in place of what was used", {
    file: LEASES,
    find: "const amount = used < this.#max ? used : this.#max;",
    put: "const amount = used === 0n ? 0n : this.#max;",
  }),
  caughtBy(WORLDS, "debits what has failed", {
    file: LEASES,
    find: "const amount = used < this.#max ? used : this.#max;",
    put: "const amount = used > 0n && used < this.#max ? used : this.#max;",
  }),
  caughtBy(WORLDS, "never says again what a question has said that failed", {
    file: POT,
    find: "    const least = base + this.#chunksSum;\n",
    put: "    this.#chunks = [];\n    const least = base + this.#chunksSum;\n",
  }),
  caughtBy(WORLDS, "spends what it gives back while it does", {
    file: POT,
    find: "    this.#floor = base;\n",
    put: "    this.#floor = this.#left;\n",
  }),
  caughtBy(LEASING, "spends what a question may have given back that failed", {
    file: POT,
    find: "    if (least < this.#held) this.#held = least;\n",
    put: "",
  }),
  caughtBy(WORLDS, "takes a late question for a new one", {
    file: JUDGE,
    find: "if (lease !== undefined && draw.turn <= lease.turn) {",
    put: "if (lease !== undefined && draw.turn < 0) {",
  }),
  caughtBy(CONTRACT, "leases to a life that is over", {
    file: STORE,
    find: `      if (this.#isOver) throw new LedgerUnavailable("this life is over");\n`,
    put: "",
  }),
  caughtBy(LEASING, "debits what was reserved of a lease that was lost", {
    file: LEASES,
    find: "const isLost = this.#generation !== this.#pot.generation;",
    put: "const isLost = this.#generation > this.#pot.generation;",
  }),
  caughtBy("test/unit/workers/remote-pots.test.ts", "spends what was answered of another pot", {
    file: "src/workers/remote-pots.ts",
    find: "pot === asked && isAmount(held)",
    put: "isAmount(held)",
  }),
  caughtBy(CONTRACT, "pays back what is in its buyer's balance", {
    file: "src/ledger/resolution.ts",
    find: "return fills !== null && settledTransaction !== null;",
    put: "return fills === null && settledTransaction === null;",
  }),
  caughtBy(CONTRACT, "pays back by itself what is in its buyer's balance", {
    file: "src/ledger/deliveries.ts",
    find: "row.fills === null &&",
    put: "",
  }),
  caughtBy(CONTRACT, "charges by use what was paid at a fixed price", {
    file: "src/ledger/metered.ts",
    find: "const isCharged = pot !== undefined && sale !== undefined && fills === null;",
    put: "const isCharged = sale !== undefined && fills === null;",
  }),
  caughtBy(CONTRACT, "forgets a payer who has prepaid", {
    file: "src/ledger/sqlite/sqlite-forgetting.ts",
    find: "if (isFirstStep(step) && hasCredits(ground.database, step.payer)) return prepaid();",
    put: "",
  }),
  caughtBy(CONTRACT, "opens a quota anew when it is used up", {
    file: ROWS,
    find: "AND until_ms IS NULL\n         AND NOT EXISTS",
    put: "\n         AND NOT EXISTS",
  }),
  caughtBy(WORLDS, "leaves in the balance what it pays back", {
    file: ROWS,
    find: `if (pours.way !== "none") writePot(`,
    put: `if (pours.way === "back") writePot(`,
  }),
  caughtBy(WORLDS, "keeps what could not be paid back", {
    file: ROWS,
    find: `if (pours.way !== "none") writePot(`,
    put: `if (pours.way === "out") writePot(`,
  }),
  caughtBy(WORLDS, "pays back of a payment what is being paid back", {
    file: RESOLUTION,
    find: "if (isRefunding(row) && (isSent || before === 0n))",
    put: "if (amount < 0n)",
  }),
  caughtBy(WORLDS, "puts back into the balance what it goes on sending", {
    file: "src/ledger/refunds.ts",
    find: "const columns = { refundState: null, refundCountedMs: null } as const;",
    put: "const columns = {};",
  }),
  caughtBy(CONTRACT, "pays back what requests have in use", {
    file: RESOLUTION,
    find: "if (amount > free) {",
    put: "if (amount > free + leased) {",
  }),
  caughtBy(CONTRACT, "pays back of a payment more than it has brought", {
    file: RESOLUTION,
    find: "if (amount > rest) {",
    put: "if (amount < 0n) {",
  }),
  caughtBy(CONTRACT, "sends all that was paid where a part is paid back", {
    file: "src/ledger/refunds.ts",
    find: "return factsOf(row).creditsAtomic ?? BigInt(amountOf(requestOf(row)));",
    put: "return BigInt(amountOf(requestOf(row)));",
  }),
  caughtBy(CONTRACT, "counts on a day what was paid where a part is paid back", {
    file: "src/ledger/sqlite/sqlite-rows.ts",
    find: `coalesce(json_extract(refund, '$.ofCredits.creditsAtomic'), amount_atomic) AS "amount"`,
    put: `amount_atomic AS "amount"`,
  }),
  caughtBy(CONTRACT, "takes out of the balance a second time what is paid by hand", {
    file: RESOLUTION,
    find: `pours: { amount: credits, way: "none", isByHand: true }`,
    put: `pours: { amount: credits, way: "out", isByHand: true }`,
  }),
  caughtBy(TEXT, "has a replica of an older program send all that was paid", {
    file: "src/ledger/refunds.ts",
    find: "return JSON.stringify({ ofCredits: { ...facts, creditsAtomic: String(creditsAtomic) } });",
    put: "return JSON.stringify({ ...facts, ofCredits: { ...facts, creditsAtomic: String(creditsAtomic) } });",
  }),
  caughtBy(PLAN, "signs for a network of which it has no key", {
    file: "src/app/refunding-credits.ts",
    find: "there.filter(mayBeSent)",
    put: "there.filter((each) => mayBeSent(each) || there.length > 0)",
  }),
  caughtBy(BALANCE, "has a buyer sign in at another place than he has asked", {
    file: SIGNING_IN,
    find: "if (info.domain !== url.host || !isHere) {",
    put: "if (!isHere) {",
  }),
  caughtBy(BALANCE, "has a buyer sign in for a URL of another place", {
    file: SIGNING_IN,
    find: "if (info.domain !== url.host || !isHere) {",
    put: "if (info.domain !== url.host) {",
  }),
  caughtBy(BALANCE, "has a buyer sign lines that are none of a challenge", {
    file: SIGNING_IN,
    find: "value.length <= MAX_LINE && LINE.test(value);",
    put: "value.length <= MAX_LINE;",
  }),
];
