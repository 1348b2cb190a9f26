/** `coinslot listing FILE`: where each priced route is listed for buyers, and if not, why. */
import {
  examineListings,
  type ListingReport,
  type RouteListing,
} from "../../diagnosis/listing/route-listings.ts";
import type { ReadSoFar } from "../../diagnosis/listing/read-listing.ts";
import { listingText } from "./listing-text.ts";
import { loadOrExplain } from "../load.ts";
import { toJson } from "../payments/payment-text.ts";
import { ProgressLine, wantsColor } from "../terminal.ts";

export interface ListingOptions {
  /** For each page, milliseconds. */
  readonly timeout: number;
  readonly json?: boolean;
}

const EXIT = { listed: 0, notListed: 1, notSeen: 3 } as const;

/** Resolves with the exit code, see the help of the command. */
export async function listing(file: string, { timeout, json }: ListingOptions): Promise<number> {
  const config = await loadOrExplain(file, { json });
  if (config === undefined) return 1;
  if (!config.routes.some(({ action }) => action.kind === "priced")) {
    process.stderr.write(`${file}: there are no priced routes, so there is nothing to be listed\n`);
    return 1;
  }
  const display = new ProgressLine();
  const onPage = ({ name, entries, total }: ReadSoFar): void => {
    display.show(`reading the listing of ${name}: ${entries} of ${total} entries`);
  };
  const report = await examineListings(config, { timeoutMs: timeout, onPage });
  display.clear();
  const code = exitCode(report);
  const routes = report.routes.map((route) => ({ ...route, listed: isListed(route) }));
  process.stdout.write(
    json
      ? toJson({ file, ok: code === EXIT.listed, ...report, routes })
      : listingText(report, wantsColor(process.stdout)),
  );
  return code;
}

function exitCode({ routes, places }: ListingReport): number {
  const wanted = routes.filter(({ places: at }) => {
    return at.some(({ state }) => state !== "not-discoverable" && state !== "switched-off");
  });
  const isWrong = routes.some(({ places: at }) => at.some(({ state }) => state === "other-terms"));
  if (isWrong || !wanted.every(isListed)) return EXIT.notListed;
  return places.some(({ state }) => state === "unreadable") ? EXIT.notSeen : EXIT.listed;
}

function isListed({ places }: RouteListing): boolean {
  return places.some(({ state }) => state === "listed");
}
