/**
 * Every operation from every state. A cell is the answer, and after `>` the state it leads to where
 * that is another one. `conflict` is a LedgerConflict, `ok` a call that returns nothing.
 */
const TABLE = `
  from         claim            claimOther          beginOwn       beginOther          beginBare           handedOver         signed              settled              settledOther         failed              released        abandoned    delivering        delivered       undelivered
  none         granted>claimed  granted>otherClaim  granted>begun  granted>begunOther  granted>begunOther  conflict           conflict            conflict             conflict             conflict            ok              ok           false             conflict        conflict
  claimed      busy             foreign             granted        taken               taken               ok>handed          ok>signed           ok>settled           ok>settled           ok>failed           ok>none         ok           false             conflict        conflict
  begun        foreign          foreign             granted        taken               taken               ok>begunHanded     ok>begunSigned      ok>begunSettled      ok>begunSettled      ok>begunfailed      conflict        ok>none      false             conflict        conflict
  signed       unresolved       foreign             resume         taken               taken               conflict           conflict            ok>settled           ok>settled           ok>failed           conflict        ok           false             conflict        conflict
  handed       unresolved       foreign             granted        taken               taken               ok                 ok>signed           ok>settled           ok>settled           ok>failed           ok>none         ok           false             conflict        conflict
  settled      settled          foreign             settled        taken               taken               conflict           conflict            ok                   conflict             conflict            conflict        ok           true>delivering   conflict        conflict
  retried      settled          foreign             settled        taken               taken               conflict           conflict            ok                   conflict             conflict            conflict        ok           true>delivering   conflict        ok
  delivering   busy             foreign             settled        taken               taken               conflict           conflict            ok                   conflict             conflict            conflict        ok           false             ok>delivered    ok>retried
  exhausted    spent            foreign             settled        taken               taken               conflict           conflict            ok                   conflict             conflict            conflict        ok           false             conflict        ok
  delivered    spent            foreign             settled        taken               taken               conflict           conflict            ok                   conflict             conflict            conflict        ok           false             ok              conflict
  failed       failed           foreign             failed         granted>begunOther  granted>begunOther  conflict           conflict            conflict             conflict             ok                  conflict        ok           false             conflict        conflict
  begunfailed  foreign          foreign             failed         granted>begunOther  granted>begunOther  conflict           conflict            conflict             conflict             ok                  conflict        conflict     false             conflict        conflict
`;

const STATES = [
  "none",
  "claimed",
  "begun",
  "signed",
  "handed",
  "settled",
  "retried",
  "delivering",
  "exhausted",
  "delivered",
  "failed",
  "begunfailed",
] as const;

const OPERATIONS = [
  "claim",
  "claimOther",
  "beginOwn",
  "beginOther",
  "beginBare",
  "handedOver",
  "signed",
  "settled",
  "settledOther",
  "failed",
  "released",
  "abandoned",
  "delivering",
  "delivered",
  "undelivered",
] as const;

/** `retried` is SETTLED after one attempt, `exhausted` after the last; `begun` has no binding. */
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
