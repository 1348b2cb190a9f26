/** How a payer is forgotten in PostgreSQL, a few rows in each transaction. */
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
import { closeSubmission } from "./postgres-accounts.ts";
import type { PostgresDatabase, Session, Statement } from "./postgres-database.ts";
import { forgetPots, hasCredits } from "./postgres-pots.ts";
import {
  CANDIDATE,
  candidateIn,
  REMOVE_NAMED_SUBMISSIONS,
  removePayments,
  SWEEP_LOCK,
} from "./postgres-sweep.ts";

type Step = ForgetStep & { readonly nowMs: number };

function candidatesOf(stage: string, condition: string): Statement {
  return {
    name: `forget_${stage}`,
    text: `
      SELECT ${CANDIDATE}, p.look_again_ms IS NOT NULL AS "isDoubted", p.submission AS "submission"
      FROM coinslot.payments AS p LEFT JOIN coinslot.submissions AS s ON s.id = p.submission
      WHERE ${condition} AND (p.created_ms, p.id) < ($2, $3)
      ORDER BY p.created_ms DESC, p.id DESC LIMIT $4`,
  };
}

/** His own, and each transfer that was sent to him in return for one of those: the newest first. */
const BY_STAGE = {
  payments: candidatesOf("payments", "lower(p.payer) = $1"),
  transfers: candidatesOf(
    "transfers",
    "lower(p.pay_to) = $1 AND p.binding IS NULL AND p.route IS NOT NULL",
  ),
} as const;
const COUNT_ELSEWHERE: Statement = {
  name: "count_used_elsewhere_of_payer",
  text: `SELECT count(*) AS "n" FROM coinslot.used_elsewhere WHERE lower(payer) = $1`,
};
const FORGET_ELSEWHERE: Statement = {
  name: "forget_used_elsewhere_of_payer",
  text: `DELETE FROM coinslot.used_elsewhere WHERE lower(payer) = $1 RETURNING payment_key AS "key"`,
};
/** Those that were looked at. */
const FORGET_MESSAGES: Statement = {
  name: "forget_messages_of_payer",
  text: `
    WITH page AS (
      SELECT place FROM coinslot.outbox WHERE place > $2 ORDER BY place LIMIT $3
    ),
    gone AS (
      DELETE FROM coinslot.outbox AS m USING page
      WHERE m.place = page.place AND lower(m.data::jsonb ->> 'payer') = $1
    )
    SELECT place AS "place" FROM page ORDER BY place`,
};
/** One that counts yet stays until it does not: it would be good for a second use. */
const FORGET_SIGN_INS: Statement = {
  name: "forget_sign_ins_of_payer",
  text: `DELETE FROM coinslot.used_sign_ins WHERE payer = $1 AND until_ms <= $2`,
};
const LOCK: Statement = {
  name: "sweep_lock",
  text: `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`,
};

/** See {@link Forgetting.forget}. No replica sweeps meanwhile. */
export function forgetPayer(database: PostgresDatabase, step: Step): Promise<ForgottenInStep> {
  const place = placeOf(step);
  return database.transaction(async (session) => {
    await session.query(LOCK, [SWEEP_LOCK]);
    if (isFirstStep(step) && (await hasCredits(session, step.payer))) return prepaid();
    return place.stage === "rest"
      ? forgetRest(session, step, place)
      : forgetPayments(session, step, place.stage);
  });
}

async function forgetPayments(
  session: Session,
  step: Step,
  stage: keyof typeof BY_STAGE,
): Promise<ForgottenInStep> {
  const { ms, id } = placeOf(step);
  const asked = [step.payer.toLowerCase(), ms, id, lookedAt(step)];
  const rows = await session.query(BY_STAGE[stage], asked);
  const known = rows.map((columns) => ({
    ...candidateIn(columns),
    key: String(columns.key) as PaymentKey,
    isDoubted: columns.isDoubted === true,
    columns,
  }));
  const looked = rows.map((columns) => ({ ms: Number(columns.ms), id: Number(columns.id) }));
  const judged = judgeForgetting(known, step.nowMs);
  if (step.isTried) return forgottenIn(step, looked, judged);
  const doomed = judged.going.map(({ payment: { columns }, fate }) => ({ columns, fate }));
  const gone = await removePayments(session, doomed);
  const carried = new Set(doomed.map(({ columns }) => columns.submission));
  const named = [...carried].filter((submission) => submission !== null);
  const removed = await session.query(REMOVE_NAMED_SUBMISSIONS, [named]);
  const closed = removed.filter(({ state }) => state !== null);
  for (const columns of closed) await closeSubmission(session, columns);
  const done = { ...judged, going: judged.going.filter(({ payment }) => gone.has(payment.key)) };
  return forgottenIn(step, looked, done, closed.length);
}

async function forgetRest(
  session: Session,
  { payer: name, isTried, nowMs }: Step,
  { id: from }: ForgetPlace,
): Promise<ForgottenInStep> {
  const payer = name.toLowerCase();
  if (isTried) {
    const [counted] = await session.query(COUNT_ELSEWHERE, [payer]);
    return forgottenRest(Number(counted?.n), []);
  }
  const isFirst = from === 0;
  const elsewhere = isFirst ? await session.query(FORGET_ELSEWHERE, [payer]) : [];
  if (isFirst) await session.query(FORGET_SIGN_INS, [payer, nowMs]);
  if (isFirst) await forgetPots(session, name);
  const looked = await session.query(FORGET_MESSAGES, [payer, from, MESSAGES_TOGETHER]);
  return forgottenRest(
    elsewhere.length,
    looked.map(({ place }) => Number(place)),
  );
}
