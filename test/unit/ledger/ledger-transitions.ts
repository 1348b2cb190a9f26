/**
 * Every operation from every state. A cell is the answer, and after `>` the state it leads to where
 * that is another one. `conflict` is a LedgerConflict, `ok` a call that returns nothing.
 */
const TABLE = `
  from          claim            claimOther          claimForged          claimTarget      beginOwn       beginOther          beginBare           beginForged          beginRepriced       outcome  handedOver      signed           settled          settledOther     failed          withdrawn   offer              released  abandoned  delivering       delivered     unsent      unanswered  cutOff     replay
  none          granted>claimed  granted>otherClaim  granted>forgedClaim  granted>claimed  granted>begun  granted>begunOther  granted>begunOther  granted>forgedClaim  granted>begunOther  gone     conflict        conflict         conflict         conflict         conflict        conflict    false              ok        ok         false            conflict      conflict    conflict    conflict   false
  claimed       unresolved       busy                forged               unresolved       granted        taken               taken               taken                taken               pending  ok>handed       ok>signed        ok>settled       ok>settled       ok>claimfailed  conflict    true>offered       ok>none   ok         false            conflict      conflict    conflict    conflict   false
  offered       unresolved       busy                forged               unresolved       pending        taken               taken               taken                taken               pending  ok>handed       ok>signed        ok>settled       ok>settled       ok>claimfailed  conflict    true               conflict  ok         false            conflict      conflict    conflict    conflict   false
  begun         busy             busy                forged               busy             granted        taken               taken               taken                taken               pending  ok>begunHanded  ok>begunSigned   ok>begunSettled  ok>begunSettled  ok>begunfailed  conflict    true>begunoffered  conflict  ok>none    false            conflict      conflict    conflict    conflict   false
  begunoffered  busy             busy                forged               busy             pending        taken               taken               taken                taken               pending  ok>begunHanded  ok>begunSigned   ok>begunSettled  ok>begunSettled  ok>begunfailed  conflict    true               conflict  ok         false            conflict      conflict    conflict    conflict   false
  begunHanded   busy             busy                forged               busy             granted        taken               taken               taken                taken               pending  ok              ok>begunSigned   ok>begunSettled  ok>begunSettled  ok>begunfailed  conflict    false              conflict  ok>none    false            conflict      conflict    conflict    conflict   false
  signed        unresolved       busy                forged               unresolved       pending        taken               taken               taken                taken               pending  conflict        conflict         ok>settled       ok>settled       ok>failed       ok>claimed  false              conflict  ok         false            conflict      conflict    conflict    conflict   false
  handed        unresolved       busy                forged               unresolved       granted        taken               taken               taken                taken               pending  ok              ok>handedsigned  ok>settled       ok>settled       ok>claimfailed  conflict    false              ok>none   ok         false            conflict      conflict    conflict    conflict   false
  handedsigned  unresolved       busy                forged               unresolved       pending        taken               taken               taken                taken               pending  conflict        conflict         ok>settled       ok>settled       ok>failed       ok>claimed  false              conflict  ok         false            conflict      conflict    conflict    conflict   false
  settled       settled          foreign             forged               settled          settled        taken               taken               taken                taken               settled  conflict        conflict         ok               conflict         conflict        conflict    false              conflict  ok         true>delivering  conflict      ok          conflict    conflict   false
  retried       settled          foreign             forged               settled          settled        taken               taken               taken                taken               settled  conflict        conflict         ok               conflict         conflict        conflict    false              conflict  ok         true>delivering  conflict      ok          ok          ok         false
  served        settled          foreign             forged               spent            settled        taken               taken               taken                taken               settled  conflict        conflict         ok               conflict         conflict        conflict    false              conflict  ok         true>delivering  conflict      ok          ok          ok         false
  delivering    busy             foreign             forged               busy             settled        taken               taken               taken                taken               settled  conflict        conflict         ok               conflict         conflict        conflict    false              conflict  ok         false            ok>delivered  ok>settled  ok>retried  ok>served  false
  exhausted     exhausted        foreign             forged               exhausted          settled        taken               taken               taken                taken               settled  conflict        conflict         ok               conflict         conflict        conflict    false              conflict  ok         false            conflict      ok          ok          ok         false
  delivered     spent            foreign             forged               spent            settled        taken               taken               taken                taken               settled  conflict        conflict         ok               conflict         conflict        conflict    false              conflict  ok         false            ok            conflict    conflict    conflict   false
  kept          sold             foreign             forged               spent            settled        taken               taken               taken                taken               settled  conflict        conflict         ok               conflict         conflict        conflict    false              conflict  ok         false            ok            conflict    conflict    conflict   true
  failed        failed           foreign             forged               failed           failed         failed              failed              taken                failed              failed   conflict        conflict         ok>settled       ok>settled       ok              conflict    false              conflict  ok         false            conflict      conflict    conflict    conflict   false
  claimfailed   failed           foreign             forged               failed           failed         granted>begunOther  granted>begunOther  taken                taken               failed   conflict        conflict         ok>settled       ok>settled       ok              conflict    false              conflict  ok         false            conflict      conflict    conflict    conflict   false
  begunfailed   foreign          foreign             forged               foreign          failed         granted>begunOther  granted>begunOther  taken                taken               failed   conflict        conflict         ok>begunSettled  ok>begunSettled  ok              conflict    false              conflict  conflict   false            conflict      conflict    conflict    conflict   false
  public        unresolved       busy                forged               unresolved       granted        taken               taken               taken                taken               pending  ok>handed       ok>signed        ok>settled       ok>settled       ok>claimfailed  conflict    true>offered       conflict  ok         false            conflict      conflict    conflict    conflict   false
  publicfailed  failed           foreign             forged               failed           failed         failed              failed              taken                failed              failed   conflict        conflict         ok>settled       ok>settled       ok              conflict    false              conflict  ok         false            conflict      conflict    conflict    conflict   false
`;

const STATES = [
  "none",
  "claimed",
  "offered",
  "begun",
  "begunoffered",
  "begunHanded",
  "signed",
  "handed",
  "handedsigned",
  "settled",
  "retried",
  "served",
  "delivering",
  "exhausted",
  "delivered",
  "kept",
  "failed",
  "claimfailed",
  "begunfailed",
  "public",
  "publicfailed",
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
  "outcome",
  "handedOver",
  "signed",
  "settled",
  "settledOther",
  "failed",
  "withdrawn",
  "offer",
  "released",
  "abandoned",
  "delivering",
  "delivered",
  "unsent",
  "unanswered",
  "cutOff",
  "replay",
] as const;

/**
 * `retried` is SETTLED after one attempt, `served` after one whose answer had begun, `exhausted` after
 * the last; `begun` has no binding; `failed` has bytes, `claimfailed` and `begunfailed` have none;
 * `kept` is DELIVERED with the answer kept; a transaction has left `public` behind; what the answers `begunOther` and the like mean shows `OBSERVED`.
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
