/** A ledger in PostgreSQL with some thousand payments, as its planner has to see them. */
import type { Client } from "pg";
import { examplePayment } from "../../unit/ledger/example-payment.ts";

const PAYMENTS = 20_000;

/** Most delivered; one in a hundred failed, and one in a hundred of another network. */
export async function fillPayments(client: Client): Promise<void> {
  const { request } = examplePayment(1);
  await client.query(
    `INSERT INTO coinslot.submissions (id, network, account, account_nonce, variants, state, signed_ms)
     SELECT 'tx' || n, 'base-sepolia', '0xa', n, '[{}]', 'CLOSED', n
     FROM generate_series(1, ${PAYMENTS}) AS n`,
  );
  await client.query(
    `INSERT INTO coinslot.submission_transactions (transaction_id, submission)
     SELECT id, id FROM coinslot.submissions`,
  );
  await client.query(
    `INSERT INTO coinslot.payments (payment_key, state, version, binding, target, idempotency_key, request,
       network, asset, amount_atomic, pay_to, payer, identity, offered, submission, settled_transaction,
       attempts, replays, failure_code, claimed_by, created_ms, updated_ms)
     SELECT 'key' || n, CASE WHEN n % 100 = 0 THEN 'FAILED' ELSE 'DELIVERED' END, 5, 'GET /', '/', 'i' || n, $1,
       CASE WHEN n % 100 = 1 THEN 'base' ELSE 'base-sepolia' END, '0xb', '1', '0xc', '0xd' || n % 500,
       n || '/0xd/base-sepolia', false, 'tx' || n, CASE WHEN n % 100 = 0 THEN NULL ELSE 'tx' || n END,
       1, 0, CASE WHEN n % 100 = 0 THEN 'insufficient_funds' END, 'life', n, n
     FROM generate_series(1, ${PAYMENTS}) AS n`,
    [JSON.stringify(request)],
  );
  await client.query(
    `INSERT INTO coinslot.tombstones (payment_key, transaction_id)
     SELECT substring(sha256(convert_to('old' || n, 'UTF8')) FROM 1 FOR 16), '\\x00'
     FROM generate_series(1, ${PAYMENTS}) AS n`,
  );
  await client.query("ANALYZE");
}
