/** The kinds of requests: how each is made, and who answers it. */
import { PRICED_ROUTES } from "../contenders/wares.ts";
import type { LoadJob } from "../load.ts";
import { sized } from "../size.ts";
import { loadOf } from "./spans.ts";
import type { Shop, SizingStage } from "./stage.ts";

const CONNECTIONS = sized(64, 4);
/** In a second: so few that most transactions carry one, and so many that they carry several. */
export const PACES = sized({ slow: 8, fast: 50 }, { slow: 4, fast: 8 });
const SALES_MS = sized(6_000, 1_000);
const QUICK_MS = sized(1_000, 100);
const VERIFIED = sized(500, 8);
/** For so many seconds of buyers there are connections. */
const CONNECTION_SECONDS = 8;
/** Shown once more each: later ones are told that they were used. */
const REPEATED = sized(128, 4);

export interface Kind {
  readonly name: string;
  /** The shop that answers, by its place among those of {@link Trio}. */
  readonly place: number;
  /** Something is paid. */
  readonly isSelling: boolean;
  prepare(): Promise<readonly Uint8Array[]>;
  /** Tells how many answers there were. */
  work(requests: readonly Uint8Array[]): Promise<number>;
}

/** One process on PostgreSQL, one on SQLite, and a replica with workers on PostgreSQL. */
export type Trio = readonly [one: Shop, sqlite: Shop, workers: Shop];

const rest = "HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n";
const UNPAID = Buffer.from(`GET ${PRICED_ROUTES[0] ?? "/"} ${rest}`);
const FREE = Buffer.from(`GET /files/1 ${rest}`);

/** Everything but sales. */
export function kindsOf(stage: SizingStage, shops: Trio): readonly Kind[] {
  const [one, , workers] = shops;
  const work = async (job: LoadJob): Promise<number> => (await loadOf(stage.load, job)).answers;
  const quick = (name: string, shop: Shop, request: Uint8Array, status: number): Kind => ({
    name,
    place: shops.indexOf(shop),
    isSelling: false,
    prepare: async () => [request],
    work: (requests) =>
      work({
        url: shop.url,
        connections: CONNECTIONS,
        durationMs: QUICK_MS,
        requests,
        expect: { status },
      }),
  });
  return [
    quick("unpaid", one, UNPAID, 402),
    quick("unpaid, two workers", workers, UNPAID, 402),
    quick("free", one, FREE, 200),
    quick("free, two workers", workers, FREE, 200),
    {
      name: "verify",
      place: 0,
      isSelling: false,
      prepare: async () => stage.calls("/verify", VERIFIED),
      work: (requests) => work(once(one.facilitatorUrl, requests)),
    },
    {
      name: "settle",
      place: 0,
      isSelling: true,
      prepare: async () => stage.calls("/settle", forPace(PACES.fast)),
      work: (requests) => work(paced(one.facilitatorUrl, requests, PACES.fast)),
    },
    {
      name: "repeated",
      place: 0,
      isSelling: true,
      async prepare() {
        const requests = stage.sales(REPEATED);
        await loadOf(stage.load, once(one.url, requests));
        return requests;
      },
      work: (requests) => work(once(one.url, requests)),
    },
  ];
}

/** Sales at a pace. */
export function salesOf(stage: SizingStage, [one, sqlite, workers]: Trio): readonly Kind[] {
  const sale = (name: string, place: number, shop: Shop, perSecond: number): Kind => ({
    name,
    place,
    isSelling: true,
    prepare: async () => stage.sales(forPace(perSecond)),
    async work(requests) {
      return (await loadOf(stage.load, paced(shop.url, requests, perSecond))).answers;
    },
  });
  return [
    sale("slow", 0, one, PACES.slow),
    sale("fast", 0, one, PACES.fast),
    sale("sqlite", 1, sqlite, PACES.fast),
    sale("workers", 2, workers, PACES.fast),
  ];
}

/** Payments for so many a second, with some to spare: none is shown twice. */
export function forPace(perSecond: number, durationMs = SALES_MS): number {
  return Math.ceil((perSecond * durationMs) / 1000) + perSecond;
}

/** So many a second, each with a payment of its own. */
export function paced(
  url: string,
  requests: readonly Uint8Array[],
  perSecond: number,
  durationMs = SALES_MS,
): LoadJob {
  // Whoever waits for a block has a connection for that long; and each is used before the gateway ends it for idling.
  const connections = Math.ceil(perSecond * CONNECTION_SECONDS);
  return { url, connections, durationMs, requests, expect: { status: 200 }, perSecond };
}

/** Each of them once, as fast as they go. */
export function once(url: string, requests: readonly Uint8Array[]): LoadJob {
  return {
    url,
    connections: CONNECTIONS,
    durationMs: 0,
    requests,
    expect: { status: 200 },
    once: true,
  };
}
