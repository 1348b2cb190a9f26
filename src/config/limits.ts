/** `limits`: what one client, and all together, may take. */
import { z } from "zod";
import { ok } from "../x402/result.ts";
import { bad, DURATION, readDuration, readSize, type Reader } from "./reading/reading.ts";
import {
  derived,
  duration,
  map,
  matching,
  optional,
  reader,
  size,
  text,
  whole,
} from "./reading/shapes.ts";

export interface Limits {
  /** Largest request head. */
  readonly headerBytes: number;
  /** Largest request body. */
  readonly bodyBytes: number;
  /** Requests that are forwarded or pay at the same time, all listeners together; null: as memory allows. */
  readonly inFlight: number | null;
  /** Open at the same time, for each listener. */
  readonly connections: number;
  /** Longest that a buyer's request is held while its settlement is not resolved. */
  readonly settlementWaitMs: number;
  /** Requests of one address to priced routes that nothing is paid for; null: no limit. */
  readonly unpaidPerIp: RequestRate | null;
  /** Of them, payments whose signatures only the chain can judge: refused ones, and those under way. */
  readonly unprovenPerIp: RequestRate;
  /** Longest that a request's body may take, while it is read. */
  readonly bodyTimeoutMs: number;
  /** Longest silence between two parts of it. */
  readonly bodyIdleMs: number;
  /** Slowest that it may be on average; it may be behind by `bodyIdleMs`. */
  readonly bodyBytesPerSecond: number;
  /** Longest that a client may take nothing of an answer that waits for it. */
  readonly answerIdleMs: number;
  /** Slowest that it may take on average what waits for it; it may be behind by `answerIdleMs`. */
  readonly answerBytesPerSecond: number;
  /** Switched (WebSocket) connections at the same time, for each upstream. */
  readonly tunnels: number;
  /** Longest silence of one of them, in both directions. */
  readonly tunnelIdleMs: number;
  /** Longest that one of them lives, whatever it was paid for. */
  readonly tunnelLifeMs: number;
  /** The most that one payer may buy for in an hour of the clock; null: as much as he likes. */
  readonly payerPerHour: HourlyAmount | null;
  /** The same of all payers together. */
  readonly salesPerHour: HourlyAmount | null;
  /** The most that gas may cost in an hour of the clock on one network that is settled here; null: no limit. */
  readonly gasPerHour: HourlyAmount | null;
}

/** Millionths of a dollar in an hour. */
type HourlyAmount = number;

/** So many requests in so many milliseconds, and so many at once. */
export interface RequestRate {
  readonly requests: number;
  readonly perMs: number;
}

/** Shorter deadlines would end what is only on its way. */
const LEAST_DEADLINE_MS = 1_000;
/** Requests a second or a minute at most. */
const MAX_REQUESTS = 1_000_000;
/**
 * Unproven payments of one address where nothing is configured. At once these are more than all that are judged at a
 * time, whoever sends them, so that nobody meets it whose payments are good; and of refused ones no buyer has two a
 * second for long.
 */
const UNPROVEN = "120/m";

const RATE_UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000 };

const REQUEST_RATE = /^([0-9]{1,7})\/([sm])$/;
const RATE_FORM = "must be a rate such as 50/s or 600/m";

/** `50/s` or `600/m`. */
const readRequestRate: Reader<RequestRate> = (written) => {
  const [, digits = "", unit = ""] = REQUEST_RATE.exec(written) ?? [];
  const requests = Number(digits);
  if (digits === "") return bad(RATE_FORM, rateHint(written));
  if (requests >= 1 && requests <= MAX_REQUESTS) {
    return ok({ requests, perMs: RATE_UNITS[unit] ?? 0 });
  }
  const hint = requests === 0 ? "leave the key out for no limit" : undefined;
  return bad(`must be a rate from 1 to ${MAX_REQUESTS}`, hint);
};

function rateHint(written: string): string | undefined {
  const near = /^([1-9][0-9]{0,6}) ?(?:(?:\/|per) ?)?(s|m|h)?(?:ec|econd|in|inute|our)?s?$/i;
  const [, digits, unit = "s"] = near.exec(written) ?? [];
  if (digits === undefined) return undefined;
  if (unit.toLowerCase() !== "h") return `write ${digits}/${unit.toLowerCase()}`;
  return `write ${Math.max(1, Math.round(Number(digits) / 60))}/m`;
}

const requestRate = reader(
  z.union([z.string(), z.number()], RATE_FORM),
  (written) => readRequestRate(String(written)),
  matching(REQUEST_RATE, RATE_FORM, "50/s", "600/m"),
);

const BYTE_RATE_FORM = "must be a rate such as 512B/s or 1KiB/s";

/** Bytes a second: `512B/s`. */
const readByteRate: Reader<number> = (written) => {
  const [, amount] = /^(.+)\/s$/.exec(written) ?? [];
  const bytes = readSize(amount ?? "");
  if (bytes.ok && bytes.value > 0) return bytes;
  const bare = readSize(written).ok ? `write ${written}/s` : undefined;
  return bad(BYTE_RATE_FORM, bare);
};

const byteRate = text(
  readByteRate,
  matching(/^[0-9]{1,12}(?:B|KiB|MiB|GiB)\/s$/, BYTE_RATE_FORM),
  BYTE_RATE_FORM,
);

/** Dollars an hour at most. */
const MAX_HOURLY_DOLLARS = 1_000_000_000;
const HOURLY_FORM = "must be dollars an hour such as $10/h or $0.50/h";
const HOURLY = /^\$(0|[1-9][0-9]{0,9})(?:\.([0-9]{1,6}))?\/h$/;

/** `$10/h`. */
const readHourlyAmount: Reader<HourlyAmount> = (written) => {
  const [, dollars, fraction = ""] = HOURLY.exec(written) ?? [];
  if (dollars === undefined) return bad(HOURLY_FORM, hourlyHint(written));
  const amount = Number(dollars) * 1e6 + Number(fraction.padEnd(6, "0"));
  if (amount > 0 && amount <= MAX_HOURLY_DOLLARS * 1e6) return ok(amount);
  const hint =
    amount === 0 ? "leave the key out for no limit; coinslot pause stops sales" : undefined;
  return bad(`must be more than zero and at most $${MAX_HOURLY_DOLLARS}/h`, hint);
};

function hourlyHint(written: string): string | undefined {
  const near = /^\$?([0-9]+(?:\.[0-9]{1,6})?) ?(?:(?:\/|per) ?)?(?:h|hour)?$/i.exec(written)?.[1];
  return near === undefined ? undefined : `write $${near}/h`;
}

const hourlyAmount = text(readHourlyAmount, matching(HOURLY, HOURLY_FORM, "$10/h"), HOURLY_FORM);

const readDeadline: Reader<number> = (written) => {
  const read = readDuration(written);
  return read.ok && read.value < LEAST_DEADLINE_MS ? bad("must be at least 1s") : read;
};

const DEADLINE_FORM = "must be a duration such as 30s, 10m or 1h";
const deadline = text(readDeadline, matching(DURATION, DEADLINE_FORM, "30s"), DEADLINE_FORM);

export const limits = map({
  header: optional(
    size,
    "Largest head of a request: a payment of 16 KiB takes 22 KiB of it.",
    "32KiB",
  ),
  body: optional(size, "Largest body of a request.", "10MiB"),
  inFlight: optional(
    whole(1, 1_000_000),
    "Requests at the same time that are forwarded or pay. One address (of IPv6: one /64) has as many as are free. " +
      "Without it: what the memory holds beside the program, 5000 at most.",
  ),
  connections: optional(
    whole(1, 1_000_000),
    "Connections to one listener at the same time: where all are taken, the longest idle end for new ones.",
    16_384,
  ),
  settlementWait: optional(
    duration,
    "Longest that a buyer is held while the chain is silent.",
    "30s",
  ),
  unpaidPerIp: optional(
    requestRate,
    "How often one address (of IPv6: one /64) may ask for a price before it is told 429. " +
      "Who pays is never limited by it. Without it: no limit.",
  ),
  unprovenPerIp: derived(
    requestRate,
    "How often it may present payments whose signatures only the chain can judge (smart wallets, and junk): those " +
      "that are refused count, and those under way. Default: as `unpaidPerIp`, where that is set.",
    UNPROVEN,
  ),
  bodyTimeout: optional(deadline, "Longest for a request's body, while it is read.", "5m"),
  bodyIdle: optional(deadline, "Longest silence between two parts of it.", "15s"),
  bodyRate: optional(
    byteRate,
    "Slowest average of it, which it may be behind by `bodyIdle`.",
    "512B/s",
  ),
  answerIdle: optional(
    deadline,
    "Longest that a client takes nothing of an answer that waits for it.",
    "60s",
  ),
  answerRate: optional(
    byteRate,
    "Slowest average at which it takes what waits for it; it may be behind by `answerIdle`.",
    "512B/s",
  ),
  tunnels: optional(
    whole(0, 1_000_000),
    "WebSockets to one target of a backend at the same time; where all are taken, whoever has most makes room.",
    1_000,
  ),
  tunnelIdle: optional(deadline, "Longest silence of a WebSocket, in both directions.", "2h"),
  tunnelLife: optional(deadline, "Longest life of a WebSocket, whatever it was paid for.", "24h"),
  perPayer: optional(
    hourlyAmount,
    "The most that one payer may buy for in an hour of the clock (UTC), over all replicas; then he is told 429 and " +
      "charged nothing. A whole unit of any token counts as a dollar. Without it: no limit.",
  ),
  sales: optional(
    hourlyAmount,
    "The same of all payers together; then what costs more than is left is not for sale (503) until the hour is over. " +
      "What was paid back since counts all the same, so keep refunds.maxPerDay below it where refunds go by themselves.",
  ),
  gas: optional(
    hourlyAmount,
    "The most that gas may cost in an hour of the clock on one network that is settled here; then the network is " +
      "closed until the hour is over. Needs nativePrice there.",
  ),
}).transform((written): Limits => ({
  headerBytes: written.header,
  bodyBytes: written.body,
  inFlight: written.inFlight ?? null,
  connections: written.connections,
  settlementWaitMs: written.settlementWait,
  unpaidPerIp: written.unpaidPerIp ?? null,
  unprovenPerIp: written.unprovenPerIp ?? written.unpaidPerIp ?? requestRate.parse(UNPROVEN),
  bodyTimeoutMs: written.bodyTimeout,
  bodyIdleMs: written.bodyIdle,
  bodyBytesPerSecond: written.bodyRate,
  answerIdleMs: written.answerIdle,
  answerBytesPerSecond: written.answerRate,
  tunnels: written.tunnels,
  tunnelIdleMs: written.tunnelIdle,
  tunnelLifeMs: written.tunnelLife,
  payerPerHour: written.perPayer ?? null,
  salesPerHour: written.sales ?? null,
  gasPerHour: written.gas ?? null,
}));
