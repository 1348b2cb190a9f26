/**
 * Every operation from every state. A cell is the answer, and after `>` the state it leads to where
 * that is another one. `conflict` is a LedgerConflict, `ok` a call that returns nothing.
 */
const TABLE = `
  from         claim            claimOther          claimForged          claimTarget      beginOwn       beginOther          beginBare           beginForged          beginRepriced       handedOver      signed          settled          settledOther     failed          released  abandoned  delivering       delivered     unsent      unanswered  cutOff
  none         granted>claimed  granted>otherClaim  granted>forgedClaim  granted>claimed  granted>begun  granted>begunOther  granted>begunOther  granted>forgedClaim  granted>begunOther  conflict        conflict        conflict         conflict         conflict        ok        ok         false            conflict      conflict    conflict    conflict
  claimed      unresolved       busy                forged               unresolved       granted        taken               taken               taken                taken               ok>handed       ok>signed       ok>settled       ok>settled       ok>failed       ok>none   ok         false            conflict      conflict    conflict    conflict
  begun        busy             busy                forged               busy             granted        taken               taken               taken                taken               ok>begunHanded  ok>begunSigned  ok>begunSettled  ok>begunSettled  ok>begunfailed  conflict  ok>none    false            conflict      conflict    conflict    conflict
  signed       unresolved       busy                forged               unresolved       resume         taken               taken               taken                taken               conflict        conflict        ok>settled       ok>settled       ok>failed       conflict  ok         false            conflict      conflict    conflict    conflict
  handed       unresolved       busy                forged               unresolved       granted        taken               taken               taken                taken               ok              ok>signed       ok>settled       ok>settled       ok>failed       ok>none   ok         false            conflict      conflict    conflict    conflict
  settled      settled          foreign             forged               settled          settled        taken               taken               taken                taken               conflict        conflict        ok               conflict         conflict        conflict  ok         true>delivering  conflict      ok          conflict    conflict
  retried      settled          foreign             forged               settled          settled        taken               taken               taken                taken               conflict        conflict        ok               conflict         conflict        conflict  ok         true>delivering  conflict      ok          ok          ok
  served       settled          foreign             forged               spent            settled        taken               taken               taken                taken               conflict        conflict        ok               conflict         conflict        conflict  ok         true>delivering  conflict      ok          ok          ok
  delivering   busy             foreign             forged               busy             settled        taken               taken               taken                taken               conflict        conflict        ok               conflict         conflict        conflict  ok         false            ok>delivered  ok>settled  ok>retried  ok>served
  exhausted    spent            foreign             forged               spent            settled        taken               taken               taken                taken               conflict        conflict        ok               conflict         conflict        conflict  ok         false            conflict      ok          ok          ok
  delivered    spent            foreign             forged               spent            settled        taken               taken               taken                taken               conflict        conflict        ok               conflict         conflict        conflict  ok         false            ok            conflict    conflict    conflict
  failed       failed           foreign             forged               failed           failed         failed              failed              taken                failed              conflict        conflict        conflict         conflict         ok              conflict  ok         false            conflict      conflict    conflict    conflict
  claimfailed  failed           foreign             forged               failed           failed         granted>begunOther  granted>begunOther  taken                taken               conflict        conflict        conflict         conflict         ok              conflict  ok         false            conflict      conflict    conflict    conflict
  begunfailed  foreign          foreign             forged               foreign          failed         granted>begunOther  granted>begunOther  taken                taken               conflict        conflict        conflict         conflict         ok              conflict  conflict   false            conflict      conflict    conflict    conflict
`;

const STATES = [
  "none",
  "claimed",
  "begun",
  "signed",
  "handed",
  "settled",
  "retried",
  "served",
  "delivering",
  "exhausted",
  "delivered",
  "failed",
  "claimfailed",
  "begunfailed",
] as const;

const OPERATIONS = [
  "claim",
  "claimOther",
  "claimForged",
  "claimTarget",
  "beginOwn",
  "beginOther",
  "beginBare",
  "beginForged",
  "beginRepriced",
  "handedOver",
  "signed",
  "settled",
  "settledOther",
  "failed",
  "released",
  "abandoned",
  "delivering",
  "delivered",
  "unsent",
  "unanswered",
  "cutOff",
] as const;

/**
 * `retried` is SETTLED after one attempt, `served` after one whose answer had begun, `exhausted` after
 * the last; `begun` has no binding; `failed` has bytes, `claimfailed` and `begunfailed` have none.
 */
export type StartState = (typeof STATES)[number];

export interface Cell {
  readonly operation: (typeof OPERATIONS)[number];
  readonly answer: string;
  readonly next: string;
}

export const TRANSITIONS: readonly {
  readonly start: StartState;
  readonly cells: readonly Cell[];
}[] = readTable();

function readTable() {
  const [header = [], ...rows] = TABLE.trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/));
  return STATES.map((start) => {
    const row = rows.find(([name]) => name === start) ?? [];
    const cells = OPERATIONS.map((operation) => {
      const [answer = "", next = start] = (row[header.indexOf(operation)] ?? "").split(">");
      return { operation, answer, next };
    });
    return { start, cells };
  });
}
