/** How a payer is forgotten in SQLite, in steps as short as those of a sweep: every sale waits meanwhile. */
import {
  forgottenIn,
  forgottenRest,
  isFirstStep,
  judgeForgetting,
  lookedAt,
  MESSAGES_TOGETHER,
  placeOf,
  prepaid,
  type ForgetPlace,
  type ForgetStep,
  type ForgottenInStep,
} from "../forgetting.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import { readSubmissionRow } from "../submission-row.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { forgetPots, hasCredits } from "./sqlite-pot-rows.ts";
import {
  CANDIDATE,
  candidateIn,
  removePayment,
  removeSubmission,
  type SweptGround,
} from "./sqlite-sweep.ts";

/** His own, and each transfer that was sent to him in return for one of those: the newest first. */
const BY_STAGE = {
  payments: `INDEXED BY payments_by_payer WHERE lower(payer) = :payer`,
  transfers: `INDEXED BY transfers_back WHERE lower(pay_to) = :payer AND binding IS NULL AND route IS NOT NULL`,
} as const;

/** One step of {@link Forgetting.forget}, within a transaction. */
export function forgetPayer(ground: SweptGround, life: string, step: ForgetStep): ForgottenInStep {
  const place = placeOf(step);
  if (isFirstStep(step) && hasCredits(ground.database, step.payer)) return prepaid();
  return place.stage === "rest"
    ? forgetRest(ground, step, place)
    : forgetPayments(ground, life, step, place.stage);
}

function forgetPayments(
  { core, database }: SweptGround,
  life: string,
  step: ForgetStep,
  stage: keyof typeof BY_STAGE,
): ForgottenInStep {
  core.storeNow();
  const { ms, id } = placeOf(step);
  const rows = database.all(
    `SELECT ${CANDIDATE}, p.look_again_ms IS NOT NULL AS "isDoubted", p.submission AS "submission"
     FROM payments AS p LEFT JOIN submissions AS s ON s.id = p.submission
     WHERE p.rowid IN (SELECT rowid FROM payments ${BY_STAGE[stage]}
       AND (created_ms, rowid) < (:ms, :id) ORDER BY created_ms DESC, rowid DESC LIMIT :limit)
     ORDER BY p.created_ms DESC, p.rowid DESC`,
    { payer: step.payer.toLowerCase(), ms, id, limit: lookedAt(step) },
  );
  const known = rows.map((columns) => ({
    ...candidateIn(columns),
    key: String(columns.key) as PaymentKey,
    version: Number(columns.version),
    ms: Number(columns.ms),
    id: Number(columns.id),
    isDoubted: columns.isDoubted === 1,
    submission: columns.submission,
  }));
  const looked = known.map((each) => ({ ms: each.ms, id: each.id }));
  const judged = judgeForgetting(known, core.time.now());
  if (step.isTried) return forgottenIn(step, looked, judged);
  const submissions = new Set<unknown>();
  for (const { payment, fate } of judged.going) {
    if (!removePayment({ core, database }, life, { ...payment, fate })) continue;
    if (payment.submission !== null) submissions.add(payment.submission);
  }
  const gone = [...submissions].filter((name) => forgetSubmission(database, String(name)));
  return forgottenIn(step, looked, judged, gone.length);
}

function forgetSubmission(database: SqliteDatabase, id: string): boolean {
  const columns = database.get(
    `SELECT id, network, state, variants, signed_ms AS "signedMs", cost FROM submissions WHERE id = ?`,
    [id],
  );
  return columns !== undefined && removeSubmission(database, readSubmissionRow(columns));
}

function forgetRest(
  { core, database }: SweptGround,
  { payer: name, isTried }: ForgetStep,
  { id: from }: ForgetPlace,
): ForgottenInStep {
  const payer = name.toLowerCase();
  const isFirst = from === 0;
  if (isTried) {
    const elsewhere = "SELECT count(*) AS n FROM used_elsewhere WHERE lower(payer) = ?";
    return forgottenRest(Number(database.get(elsewhere, [payer])?.n), []);
  }
  let usedElsewhere = 0;
  if (isFirst) {
    usedElsewhere = database.run("DELETE FROM used_elsewhere WHERE lower(payer) = ?", [payer]);
    // One that counts yet stays until it does not: it would be good for a second use.
    const isOver = "DELETE FROM used_sign_ins WHERE payer = ? AND until_ms <= ?";
    database.run(isOver, [payer, core.time.now()]);
    forgetPots(database, name);
  }
  const messages = database.all("SELECT place FROM outbox WHERE place > ? ORDER BY place LIMIT ?", [
    from,
    MESSAGES_TOGETHER,
  ]);
  const places = messages.map(({ place }) => Number(place));
  database.run(
    `DELETE FROM outbox WHERE place > :from AND place <= :last AND lower(data ->> '$.payer') = :payer`,
    { from, last: places.at(-1) ?? from, payer },
  );
  return forgottenRest(usedElsewhere, places);
}
