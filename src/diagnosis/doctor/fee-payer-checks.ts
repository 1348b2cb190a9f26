/**
 * Whether our fee payers on Solana have sent what this ledger does not know. Two gateways with one key send the
 * same transaction for one payment, to the last byte: nothing on the chain tells them apart.
 */
import type { Config, EmbeddedNetwork } from "../../config/config.ts";
import { openRpc } from "../../mechanism/rpc.ts";
import { openBooks } from "../../admin/books.ts";
import { warn, type DoctorFinding } from "./finding.ts";
import type { RpcEndpoint } from "./rpc-check.ts";

/** Transactions of an account that are looked for in the ledger, the newest. */
const MOST = 20;
/** What is older says nothing of who uses a key now, seconds. */
const RECENT_SECONDS = 7 * 86_400;

/** Nothing where all are known, and where there is no ledger to look in. */
export async function checkFeePayers(
  config: Config,
  { network, kind }: EmbeddedNetwork,
  { accounts, endpoint }: { readonly accounts: readonly string[]; readonly endpoint: RpcEndpoint },
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  if (kind !== "solana") return [];
  const books = await openBooks(config).catch(() => undefined);
  if (books === undefined) return [];
  const { fetchTransaction, listTransactions } = await import("../../mechanism/solana/history.ts");
  const rpc = openRpc(endpoint.url.reveal());
  try {
    const findings: DoctorFinding[] = [];
    for (const account of accounts) {
      const question = { account, before: undefined, minContextSlot: 0 };
      const listed = await listTransactions(rpc, question, signal);
      const sinceSeconds = Date.now() / 1000 - RECENT_SECONDS;
      const recent = listed
        .slice(0, MOST)
        .filter(({ blockTime }) => blockTime !== undefined && blockTime >= sinceSeconds);
      let strange = 0;
      for (const { signature } of recent) {
        if ((await books.show(signature)) !== undefined) continue;
        const found = await fetchTransaction(rpc, signature, 0, signal);
        // Whoever sends it SOL has paid for that himself.
        if (typeof found === "object" && found.feePayer === account) strange += 1;
      }
      if (strange > 0) findings.push(strangeTransactions(`${network} account ${account}`, strange));
    }
    return findings;
  } finally {
    await rpc.close();
    await books.close();
  }
}

function strangeTransactions(subject: string, count: number): DoctorFinding {
  const message =
    `of its latest ${MOST} transactions ${count} are not in this ledger: a second gateway with this key and a ` +
    "ledger of its own would sell each payment that it is shown once more";
  const fix = "one Solana key, one ledger: see that nothing else settles with it";
  return warn(subject, message, fix);
}
