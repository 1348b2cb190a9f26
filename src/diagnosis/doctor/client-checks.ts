/** What each official client would do with the 402 of each priced route: who can buy, who cannot, and why. */
import type { Config } from "../../config/config.ts";
import { listed, quoteHeader, routeQuotes, type RouteQuote } from "../route-quotes.ts";
import {
  CLIENTS,
  HALVES,
  walletsFor,
  type BuyerWallet,
  type ClientRules,
  type SentQuote,
  type Verdict,
} from "./client-rules.ts";
import { fail, ok, warn, type Check, type DoctorFinding } from "./finding.ts";

const SUBJECT = "official clients";

interface ClientVerdict {
  readonly client: string;
  readonly wallet: BuyerWallet;
  readonly verdict: Verdict;
  /** `pays in USDC on base`, or why not; words that go on from the name of the client. */
  readonly said: string;
}

/** By the key of the route. */
type Judged = ReadonlyMap<string, readonly ClientVerdict[]>;

export function clientChecks(config: Config): readonly Check[] {
  if (!config.routes.some(({ action }) => action.kind === "priced")) return [];
  const run: Check["run"] = async () => {
    const routes = judgeRoutes(config, [...CLIENTS, ...HALVES]);
    // Those that nobody buys by default first.
    const unsold = [...routes].filter(([, verdicts]) =>
      verdicts.filter(isOfClient).every(isRefusal),
    );
    const said = `none pays for ${listed(unsold.map(([key]) => key))}`;
    const nobody = unsold.length === 0 ? [] : [fail(SUBJECT, said, "see the reasons below")];
    const told = [...describeRefusals(routes), ...describeSales(routes)];
    return [...nobody, ...told, ...describeHalves(routes)];
  };
  return [{ name: SUBJECT, section: "clients", run }];
}

export function judgeRoutes(config: Config, clients: readonly ClientRules[] = CLIENTS): Judged {
  const judged = new Map<string, readonly ClientVerdict[]>();
  for (const quote of routeQuotes(config)) judged.set(quote.route.key, judgeRoute(quote, clients));
  return judged;
}

function judgeRoute(
  { route: { action }, answer }: RouteQuote,
  clients: readonly ClientRules[],
): readonly ClientVerdict[] {
  const offers = action.kind === "priced" ? action.offers : [];
  const wallets = walletsFor(offers.map(({ network }) => network));
  const sent: SentQuote = { header: quoteHeader(answer), body: JSON.parse(answer.body) };
  return clients.flatMap(({ name, judge }) =>
    wallets.map((wallet): ClientVerdict => {
      const verdict = judge(sent, wallet);
      if (verdict.kind === "refuses")
        return { client: name, wallet, verdict, said: verdict.detail };
      const offer = offers[verdict.index];
      const said = `pays in ${offer?.asset.symbol ?? "?"} on ${offer?.network ?? "?"}`;
      return { client: name, wallet, verdict, said };
    }),
  );
}

/** And not of one that is set up for half of what it can. */
function isOfClient({ client }: ClientVerdict): boolean {
  return CLIENTS.some(({ name }) => name === client);
}

function isRefusal({ verdict }: ClientVerdict): boolean {
  return verdict.kind === "refuses";
}

/** Why somebody does not buy. */
interface Refusal {
  readonly clients: string[];
  readonly said: string;
  readonly fix: string;
  /** Of routes. */
  readonly keys: string[];
}

/** One for each reason of each client; clients that refuse the same routes for the same reason have one together. */
function describeRefusals(routes: Judged): readonly DoctorFinding[] {
  const told: Refusal[] = [];
  for (const { name } of CLIENTS) {
    const own = new Map<string, Refusal>();
    for (const [key, all] of routes) {
      const verdicts = all.filter(({ client }) => client === name);
      const reasons = Map.groupBy(verdicts.filter(isRefusal), ({ said }) => said);
      for (const [reason, some] of reasons) {
        const who = walletsOf(some, verdicts);
        const said = who === "" ? reason : `${who}: ${reason}`;
        const refusal = own.get(said) ?? { clients: [name], said, fix: fixFor(some[0]), keys: [] };
        refusal.keys.push(key);
        own.set(said, refusal);
      }
    }
    for (const refusal of own.values()) {
      const same = told.find(({ said, fix, keys }) => {
        return said === refusal.said && fix === refusal.fix && keys.join() === refusal.keys.join();
      });
      if (same === undefined) told.push(refusal);
      else same.clients.push(name);
    }
  }
  return told.map(({ clients, said, fix, keys }) => {
    return warn(clients.join(", "), `${said}: ${listed(keys)}`, fix);
  });
}

/** Who buys, by what; routes that the same clients buy together. */
function describeSales(routes: Judged): readonly DoctorFinding[] {
  const sold = Map.groupBy(routes, ([, all]) => {
    const buyers = CLIENTS.flatMap(({ name }) => {
      const verdicts = all.filter(({ client }) => client === name);
      const paying = verdicts.filter((each) => !isRefusal(each));
      return paying.length === 0 ? [] : [`${name} ${walletsOf(paying, verdicts)}`.trim()];
    });
    return buyers.join() === CLIENTS.map(({ name }) => name).join() ? "all" : buyers.join(", ");
  });
  sold.delete("");
  return [...sold].map(([buyers, some]) => {
    return ok(SUBJECT, `${buyers} can pay for ${listed(some.map(([key]) => key))}`);
  });
}

/** Where version 2 is switched off that is for the operator to see; where it is spoken all is as it should be. */
function describeHalves(routes: Judged): readonly DoctorFinding[] {
  return HALVES.flatMap(({ name }) => {
    const own = [...routes].flatMap(([key, all]) => {
      const verdict = all.find(({ client }) => client === name)?.verdict;
      const isOther = verdict?.kind === "refuses" && verdict.reason === "other-version";
      return isOther ? [{ key, detail: verdict.detail }] : [];
    });
    const [first] = own;
    if (first === undefined) return [];
    const message = `${first.detail}: ${listed(own.map(({ key }) => key))}`;
    return name === HALVES[0]?.name
      ? [ok(name, `${message}; its users register those of version 2 as well`)]
      : [warn(name, message, "speak version 2 as well (protocol.v2)")];
  });
}

/** `with a Solana wallet`, where that makes a difference. */
function walletsOf(some: readonly ClientVerdict[], all: readonly ClientVerdict[]): string {
  if (some.length === all.length) return "";
  const isEvm = ({ wallet }: ClientVerdict): boolean => wallet.kind === "evm";
  const evm = some.filter(isEvm);
  const isWhole = evm.length > 0 && evm.length === all.filter(isEvm).length;
  const names = [
    ...(isWhole ? ["an EVM account"] : evm.map(({ wallet }) => nameOf(wallet))),
    ...(evm.length < some.length ? ["a Solana wallet"] : []),
  ];
  return `with ${names.join(" or ")}`;
}

function nameOf(wallet: BuyerWallet): string {
  return wallet.kind === "evm" && wallet.chain !== null
    ? `a wallet on ${wallet.chain}`
    : "an EVM account without a chain";
}

function fixFor(finding: ClientVerdict | undefined): string {
  const reason = finding?.verdict.kind === "refuses" ? finding.verdict.reason : "unreadable";
  const isV2 = finding?.client.startsWith("@x402/") ?? false;
  switch (reason) {
    case "too-dear":
      return isV2
        ? "its users raise spendControls.maxAmountPerPayment, or the price is lowered"
        : "its users give wrapFetchWithPayment a higher maxValue, or the price is lowered";
    case "unknown-token":
      return "its users allow the token (spendControls.allowedAssets), or you accept USDC on base";
    case "other-network":
      return "accept a network of that wallet as well, with its USDC, and name it first";
    case "other-version":
      return "speak version 1 as well (protocol.v1), or have them use @x402/fetch";
    case "unreadable":
      return "one odd offer loses these buyers: take it out of accept";
  }
}
