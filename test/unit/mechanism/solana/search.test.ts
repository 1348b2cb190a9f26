/** The search for a payment in long lists, and in lists that make no sense. */
import { describe, expect, test } from "vitest";
import { Blockhashes } from "../../../../src/mechanism/solana/blockhashes.ts";
import { MISSING_MS, REACH_MS, Search } from "../../../../src/mechanism/solana/search.ts";
import { Statuses } from "../../../../src/mechanism/solana/statuses.ts";
import type { Confirmation } from "../../../../src/mechanism/mechanism.ts";
import type { Time } from "../../../../src/time/time.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import type { RpcReply } from "../../../support/scripted-node.ts";
import { buildTransaction, layOut, testKey } from "../../../support/solana-messages.ts";
import { devnetPayment, requirementsOf } from "../../../support/solana-requests.ts";
import { inContext, startScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import { hurriedTime, never, signTransaction, type SignedPayment } from "./tracking.ts";
import { isRecord } from "../../../../src/x402/json.ts";

const VALID_SLOT = 10_000;
const EXPIRED_SLOT = VALID_SLOT + 200;
const NOT_ALL = "not all of the payer's transactions could be compared with the payment yet";
const UNSHOWN = "a node lists transactions of the payer that it could not show yet";
const NOT_YET = "no transaction with the payment is on the chain yet";

interface Entry {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. */
  readonly blockTime?: number | null;
}

/** What an account took part in, newest first, as a node lists and shows it. */
interface Ledger {
  readonly listed: readonly Entry[];
  /** By signature: base64; another payment's where it is not here, null where the node has none. */
  readonly shown: Readonly<Record<string, string | null>>;
}

function sign(memo: string): SignedPayment {
  const payment = devnetPayment();
  return signTransaction(
    buildTransaction(layOut("svm", payment, { memo })),
    requirementsOf(payment),
  );
}

const payment = sign("this one");
const ours = payment.signed.transaction;
const another = sign("another one").signed.raw;

/** So many transactions of others, the newest at `slot`, one a slot. */
function strangers(count: number, slot: number, prefix = "stranger"): Ledger["listed"] {
  return Array.from({ length: count }, (_, index) => {
    return { signature: `${prefix}-${index}`, slot: slot - index };
  });
}

function answering({ listed, shown }: Ledger) {
  return ({ method, params }: { method: string; params: readonly unknown[] }): RpcReply => {
    const [name, options] = params;
    if (method === "isBlockhashValid") return inContext(EXPIRED_SLOT, false);
    if (method === "getTransaction") {
      const raw = shown[String(name)] === undefined ? another : shown[String(name)];
      const transaction = [raw, "base64"];
      return { result: raw === null ? null : { slot: 1, transaction, meta: { err: null } } };
    }
    const { before, limit } = isRecord(options) ? options : {};
    const start = listed.findIndex(({ signature }) => signature === before) + 1;
    return { result: listed.slice(start, start + Number(limit)) };
  };
}

interface Searching {
  readonly search: Search;
  readonly blockhashes: Blockhashes;
}

function open({ endpoints }: ScriptedCluster, time: Time = hurriedTime(100)): Searching {
  const blockhashes = new Blockhashes({ time, closing: never });
  const statuses = new Statuses({ endpoints, time, closing: never });
  const search = new Search({ endpoints, statuses, blockhashes, commitment: "confirmed", time });
  return { search, blockhashes };
}

function reconcile({ search }: Searching, claimed?: string, after: number | null = null) {
  return search.reconcile(payment.authorization, { claimed, after }, never);
}

async function untilKnown(searching: Searching): Promise<Confirmation> {
  let said = await reconcile(searching);
  for (let count = 0; said.kind === "unknown" && count < 200; count += 1) {
    said = await reconcile(searching);
  }
  return said;
}

/** Nothing is known of the blockhash but that it has expired. */
function restarted(cluster: ScriptedCluster, time?: Time): Searching {
  const searching = open(cluster, time);
  searching.blockhashes.notedValid(payment.authorization.message.blockhash, 0);
  return searching;
}

const countOf = (cluster: ScriptedCluster, wanted: string): number =>
  cluster.questions().filter(({ method }) => method === wanted).length;

describe("a long list", () => {
  test("is read page by page, down to where the payment cannot be", async () => {
    const floor = strangers(250, VALID_SLOT - 400);
    const listed = [...strangers(350, EXPIRED_SLOT, "late"), ...floor];
    await using cluster = await startScriptedCluster([answering({ listed, shown: {} })]);
    const searching = open(cluster);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    let said = await reconcile(searching);
    while (said.kind === "unknown") {
      expect(said.detail).toBe(NOT_ALL);
      said = await reconcile(searching);
    }
    expect(said).toMatchObject({ kind: "failed", retriable: false });
    // Of the last ones, those from 600 slots before on.
    expect(countOf(cluster, "getTransaction")).toBe(350 + 201);
    const first = cluster.questions().find(({ method }) => method.endsWith("ForAddress"));
    expect(first?.params[1]).toEqual({
      limit: 200,
      commitment: "confirmed",
      minContextSlot: EXPIRED_SLOT,
    });
  });

  test("is not fetched all at once", async () => {
    const listed = strangers(100, EXPIRED_SLOT);
    await using cluster = await startScriptedCluster([answering({ listed, shown: {} })]);
    const searching = open(cluster);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    expect(await reconcile(searching)).toEqual({ kind: "unknown", detail: NOT_ALL });
    expect(countOf(cluster, "getTransaction")).toBe(24);
    await reconcile(searching);
    expect(countOf(cluster, "getTransaction")).toBe(48);
  });

  test("is read on where the last look stopped, however long it is", async () => {
    const listed = strangers(1_500, EXPIRED_SLOT + 5_000);
    await using cluster = await startScriptedCluster([answering({ listed, shown: {} })]);
    const searching = open(cluster);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    // 24 for a look, and nothing twice.
    for (let count = 0; count < 62; count += 1) {
      expect(await reconcile(searching)).toEqual({ kind: "unknown", detail: NOT_ALL });
    }
    for (let count = 0; count < 2; count += 1) {
      expect(await reconcile(searching)).toMatchObject({ kind: "failed" });
    }
    expect(countOf(cluster, "getTransaction")).toBe(1_500);
    expect(countOf(cluster, "getSignaturesForAddress")).toBeLessThan(80);
  });

  test("is read by each endpoint, and both have to find the same", async () => {
    const listed = strangers(300, EXPIRED_SLOT);
    const answer = answering({ listed, shown: {} });
    await using cluster = await startScriptedCluster([answer, answer]);
    const searching = open(cluster);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    const said: string[] = [];
    while (said.at(-1) !== "failed" || said.at(-2) !== "failed") {
      said.push((await reconcile(searching)).kind);
    }
    for (const node of [0, 1]) {
      const methods = cluster.questions(node).map(({ method }) => method);
      expect(methods).toContain("getSignaturesForAddress");
    }
  });

  test("holds the payment behind more than one look can list", async () => {
    const listed = [
      ...strangers(1_300, EXPIRED_SLOT),
      { signature: ours, slot: VALID_SLOT - 1_000 },
    ];
    const shown = { [ours]: payment.signed.raw };
    await using cluster = await startScriptedCluster([answering({ listed, shown })]);
    expect(await untilKnown(restarted(cluster))).toEqual({ kind: "confirmed", transaction: ours });
  });

  test("ends where it is older than any payment that is still asked for", async () => {
    const time = new ManualTime();
    const nowSeconds = time.now() / 1_000;
    const oldest = nowSeconds - REACH_MS / 1_000;
    const listed = strangers(500, EXPIRED_SLOT).map((each, index) => {
      // Nothing is known of the time of some.
      return { ...each, blockTime: index % 2 === 0 ? null : index < 250 ? nowSeconds : oldest - 1 };
    });
    await using cluster = await startScriptedCluster([answering({ listed, shown: {} })]);
    expect(await untilKnown(restarted(cluster, time))).toMatchObject({ kind: "failed" });
    expect(countOf(cluster, "getTransaction")).toBeLessThan(500);
    expect(countOf(cluster, "getTransaction")).toBeGreaterThanOrEqual(250);
  });

  test("is begun again where a node has lost the place", async () => {
    const ledger = answering({ listed: strangers(300, EXPIRED_SLOT), shown: {} });
    let isLost = false;
    await using cluster = await startScriptedCluster([
      (question) => {
        const isOn = isRecord(question.params[1]) && "before" in question.params[1];
        return isOn && isLost ? { result: [] } : ledger(question);
      },
    ]);
    const searching = open(cluster);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    await reconcile(searching);
    isLost = true;
    // An empty list there is no end of the list.
    expect(await reconcile(searching)).toMatchObject({ kind: "unknown" });
    isLost = false;
    expect(await untilKnown(searching)).toMatchObject({ kind: "failed" });
    expect(countOf(cluster, "getTransaction")).toBe(300);
  });

  test("is begun again where the blockhash was valid later than it seemed", async () => {
    const listed: Entry[] = [...strangers(100, EXPIRED_SLOT)];
    let slot = EXPIRED_SLOT;
    const shown = { [ours]: payment.signed.raw };
    const ledger = answering({ listed, shown });
    await using cluster = await startScriptedCluster([
      (question) =>
        question.method === "isBlockhashValid" ? inContext(slot, false) : ledger(question),
    ]);
    const time = new ManualTime();
    const searching = open(cluster, time);
    const { blockhash } = payment.authorization.message;
    searching.blockhashes.notedValid(blockhash, VALID_SLOT);
    await reconcile(searching);
    searching.blockhashes.notedValid(blockhash, EXPIRED_SLOT + 100);
    listed.unshift({ signature: ours, slot: EXPIRED_SLOT + 99 });
    slot = EXPIRED_SLOT + 200;
    await time.advance(3_000);
    expect(await reconcile(searching)).toEqual({ kind: "confirmed", transaction: ours });
  });

  test("holds the payment on a later page", async () => {
    const listed = [...strangers(205, EXPIRED_SLOT), { signature: ours, slot: VALID_SLOT }];
    const shown = { [ours]: payment.signed.raw };
    await using cluster = await startScriptedCluster([answering({ listed, shown })]);
    const searching = open(cluster);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    let said = await reconcile(searching);
    while (said.kind === "unknown") said = await reconcile(searching);
    expect(said).toEqual({ kind: "confirmed", transaction: ours });
  });
});

describe("a transaction that is listed", () => {
  test("and not shown yet leaves the payment open", async () => {
    const listed = strangers(1, EXPIRED_SLOT);
    const shown = { "stranger-0": null };
    await using cluster = await startScriptedCluster([answering({ listed, shown })]);
    const searching = open(cluster);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    for (let count = 0; count < 3; count += 1) {
      expect(await reconcile(searching)).toEqual({ kind: "unknown", detail: UNSHOWN });
    }
  });

  test("and shown by another endpoint only is asked for there", async () => {
    const listed = [{ signature: ours, slot: VALID_SLOT }];
    await using cluster = await startScriptedCluster([
      answering({ listed, shown: { [ours]: null } }),
      answering({ listed, shown: { [ours]: payment.signed.raw } }),
    ]);
    const searching = open(cluster);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    expect(await reconcile(searching)).toEqual({ kind: "unknown", detail: UNSHOWN });
    expect(await reconcile(searching)).toEqual({ kind: "confirmed", transaction: ours });
  });

  test("and never shown does not keep the payment open for ever", async () => {
    const listed = strangers(60, EXPIRED_SLOT);
    const shown = Object.fromEntries(listed.map(({ signature }) => [signature, null]));
    await using cluster = await startScriptedCluster([answering({ listed, shown })]);
    const time = new ManualTime();
    const searching = open(cluster, time);
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    expect(await reconcile(searching)).toEqual({ kind: "unknown", detail: UNSHOWN });
    await time.advance(MISSING_MS - 1);
    expect(await reconcile(searching)).toEqual({ kind: "unknown", detail: UNSHOWN });
    await time.advance(1);
    for (let count = 0; count < 2; count += 1) {
      expect(await reconcile(searching)).toEqual({ kind: "unknown", detail: NOT_ALL });
    }
    for (let count = 0; count < 2; count += 1) {
      expect(await reconcile(searching)).toMatchObject({ kind: "failed" });
    }
  });

  test("and cannot be read is another one", async () => {
    const listed = strangers(1, EXPIRED_SLOT);
    const shown = { "stranger-0": Buffer.from("nonsense").toString("base64") };
    await using cluster = await startScriptedCluster([answering({ listed, shown })]);
    const searching = open(cluster);
    expect(await reconcile(searching)).toEqual({
      kind: "unknown",
      detail: NOT_YET,
      isUnused: true,
    });
    searching.blockhashes.notedValid(payment.authorization.message.blockhash, VALID_SLOT);
    expect(await reconcile(searching)).toMatchObject({ kind: "failed" });
    expect(countOf(cluster, "getTransaction")).toBe(1);
  });

  test("under another name is the payment by its own name", async () => {
    const claimed = sign("yet another one").signed.transaction;
    const shown = { [claimed]: payment.signed.raw };
    await using cluster = await startScriptedCluster([answering({ listed: [], shown })]);
    const said = await reconcile(open(cluster), claimed);
    expect(said).toEqual({ kind: "confirmed", transaction: ours });
  });
});

describe("an answer that makes no sense", () => {
  const transaction = [another, "base64"];
  test.each<[string, string, unknown]>([
    ["getSignaturesForAddress", "no list", null],
    ["getSignaturesForAddress", "names alone", ["a"]],
    ["getSignaturesForAddress", "no slots", [{ signature: "a" }]],
    ["getSignaturesForAddress", "more than was asked for", strangers(201, EXPIRED_SLOT)],
    ["getTransaction", "text", "found"],
    ["getTransaction", "no transaction", { meta: { err: null } }],
    [
      "getTransaction",
      "another encoding",
      { transaction: [another, "base58"], meta: { err: null } },
    ],
    ["getTransaction", "no result of it", { transaction, meta: null }],
    ["getTransaction", "half a result of it", { transaction, meta: {} }],
  ])("to %s says nothing of the payment: %s", async (wanted, _title, result) => {
    const answer = answering({ listed: strangers(1, EXPIRED_SLOT), shown: {} });
    await using cluster = await startScriptedCluster([
      (question) => (question.method === wanted ? { result } : answer(question)),
    ]);
    await expect(reconcile(open(cluster))).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });
});

test("the account that is searched is the one that pays", async () => {
  await using cluster = await startScriptedCluster([answering({ listed: [], shown: {} })]);
  await reconcile(open(cluster));
  const listing = cluster.questions().find(({ method }) => method.endsWith("ForAddress"));
  expect(listing?.params[0]).not.toBe(testKey(2).address);
  expect(payment.authorization.message.keys).toContain(listing?.params[0]);
});
