/** About what others are told of sales: by whom, whether at all, and in which order (H21). */
import type { Mutant } from "./mutant.ts";

const RECEIVER = "src/webhooks/receiver.ts";
const WEBHOOKS = "src/webhooks/webhooks.ts";
const EVENTS = "src/ledger/outbox-event.ts";
const SQLITE = "src/ledger/sqlite/sqlite-outbox.ts";
const ROWS = "src/ledger/sqlite/sqlite-rows.ts";
const CONFIG = "src/config/webhooks.ts";
const TELLER = "src/app/webhooks.ts";

const SENDING_TEST = "test/unit/webhooks/webhooks.test.ts";
const CONTRACT = "test/unit/ledger/memory-ledger.test.ts";
const SQLITE_TEST = "test/unit/ledger/sqlite/sqlite-contract.test.ts";
const GOLDEN_TEST = "test/unit/config/golden.test.ts";
const TELLER_TEST = "test/unit/app/webhooks.test.ts";

export const WEBHOOK_MUTANTS: readonly Mutant[] = [
  caughtBy(SQLITE_TEST, "tells of a step that is not stored with it", {
    file: ROWS,
    find: "for (const { event, atMs } of written.events) this.#outbox.add(event, atMs);",
    put: "for (const { event, atMs } of written.events) setTimeout(() => this.#outbox.add(event, atMs), 400);",
  }),
  caughtBy(SQLITE_TEST, "tells of a payment before what came before is over", {
    file: SQLITE,
    find: "AND e.place < m.place)",
    put: "AND e.place < 0)",
  }),
  caughtBy(SQLITE_TEST, "gives to two at once what one has taken", {
    file: SQLITE,
    find: "untilMs: nowMs + TAKEN_FOR_MS",
    put: "untilMs: nowMs - TAKEN_FOR_MS",
  }),
  caughtBy(SQLITE_TEST, "believes who had a message before", {
    file: SQLITE,
    find: "WHERE place = :place AND taker = :taker AND state = 'WAITING'`",
    put: "WHERE place = :place AND :taker <> '' AND state = 'WAITING'`",
  }),
  caughtBy(CONTRACT, "tells of sales that are none of ours", {
    file: EVENTS,
    find: "if (before === undefined || next.binding === null) return undefined;",
    put: "if (before === undefined) return undefined;",
  }),
  caughtBy(CONTRACT, "tells of attempts that do not count", {
    file: EVENTS,
    find: '(next.state === "SETTLED" && next.attempts === before.attempts)',
    put: 'next.state === "SETTLED"',
  }),
  caughtBy(SQLITE_TEST, "tells a trouble each time that it is seen", {
    file: SQLITE,
    find: "if (changed > 0) this.add(event, nowMs);",
    put: "if (changed >= 0) this.add(event, nowMs);",
  }),
  caughtBy(CONTRACT, "tells everybody everything", {
    file: "src/ledger/outbox.ts",
    find: "recipients.filter(({ events }) => event && events.includes(event.type))",
    put: "recipients.filter(({ events }) => event && events.length > 0)",
  }),
  caughtBy(SENDING_TEST, "says of whom it serves no more since it stops that he was taken away", {
    file: "src/webhooks/webhooks.ts",
    find: "if (!signal.aborted) this.#tellOfLeft(counts);",
    put: "this.#tellOfLeft(counts);",
  }),
  caughtBy(SENDING_TEST, "signs with the first secret alone", {
    file: RECEIVER,
    find: "this.#webhooks = settings.secrets.map(",
    put: "this.#webhooks = settings.secrets.slice(0, 1).map(",
  }),
  caughtBy(SENDING_TEST, "signs the time of the event", {
    file: RECEIVER,
    find: "const now = new Date(this.#time.now());",
    put: "const now = new Date(0);",
  }),
  caughtBy(SENDING_TEST, "takes a redirect for an answer", {
    file: RECEIVER,
    find: "if (status >= 200 && status < 300)",
    put: "if (status >= 200 && status < 400)",
  }),
  caughtBy(SENDING_TEST, "goes on to send to who is gone", {
    file: WEBHOOKS,
    find: 'if (answers.some((each) => each.kind === "failed" && each.isGone)) {',
    put: 'if (answers.some((each) => each.kind === "failed" && !each.isGone && each.detail === "")) {',
  }),
  caughtBy(SENDING_TEST, "tells for days of a receiver that nobody has", {
    file: WEBHOOKS,
    find: "webhooks.waiting(counts, this.#names, time.now());",
    put: "webhooks.waiting(counts, [...this.#names, ...counts.map((each) => each.recipient)], time.now());",
  }),
  caughtBy(SENDING_TEST, "tells at each look what waits for a receiver that nobody has", {
    file: WEBHOOKS,
    find: "if (this.#names.includes(receiver) || this.#left.has(receiver)) continue;",
    put: "if (this.#names.includes(receiver)) continue;",
  }),
  caughtBy(SENDING_TEST, "gives a message up as soon as it fails", {
    file: WEBHOOKS,
    find: "if (nextMs - sinceMs > TRIED_FOR_MS && attempts >= LEAST_ATTEMPTS) {",
    put: "if (nextMs > sinceMs) {",
  }),
  caughtBy(SENDING_TEST, "tries again for ever", {
    file: WEBHOOKS,
    find: "if (nextMs - sinceMs > TRIED_FOR_MS && attempts >= LEAST_ATTEMPTS) {",
    put: "if (nextMs < sinceMs) {",
  }),
  caughtBy(GOLDEN_TEST, "tells over http who paid whom", {
    file: CONFIG,
    find: 'if (protocol === "https:" || isNear) return;',
    put: 'if (protocol === "https:" || isNear || hostname !== "") return;',
  }),
  caughtBy(GOLDEN_TEST, "takes a secret that stands in the file", {
    file: CONFIG,
    find: "if (REFERENCE.test(written)) return ok(written);",
    put: "if (REFERENCE.test(written) || SECRET.test(written)) return ok(written);",
  }),
  caughtBy(TELLER_TEST, "tells of a low wallet at each look", {
    file: TELLER,
    find: "const isLow = settlementsLeft < (wasLow ? 2n * LOW_SETTLEMENTS : LOW_SETTLEMENTS);",
    put: "const isLow = settlementsLeft < (wasLow ? LOW_SETTLEMENTS : LOW_SETTLEMENTS);",
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H22", unit, ...edit };
}
