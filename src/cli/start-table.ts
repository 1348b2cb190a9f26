/** The table that `serve` prints once: what listens where, what costs what, what to look at. */
import type { AddressInfo } from "node:net";
import type { Running } from "../app.ts";
import {
  type MemberPrice,
  sitesOf,
  holdersText,
  waysText,
  type Config,
  type EmbeddedNetwork,
  type Problem,
  type RouteSettings,
} from "../config/config.ts";

type Shown = "addresses" | "probes" | "wallets" | "feePayers" | "workers";
type Wallet = Running["wallets"][number];
type FeePayer = Running["feePayers"][number];
type Row = readonly [label: string, text: string];

export function startTable(
  config: Config,
  { addresses, probes, wallets, feePayers, workers }: Pick<Running, Shown>,
  problems: readonly Problem[],
): string {
  const sections: (readonly [title: string, rows: readonly Row[]])[] = [
    ["listeners", [...listeners(config, addresses), ...crew(config, workers)]],
    ["routes", config.routes.map((route) => [route.key, describe(route, config)] as const)],
    ["networks", networks(config, probes, feePayers)],
    ["wallets that pay network fees", wallets.map(describeWallet)],
    ["warnings", warnings(probes, problems)],
  ];
  return sections
    .filter(([, rows]) => rows.length > 0)
    .map(([title, rows]) => `${title}\n${format(rows)}\n`)
    .join("\n");
}

const STATES = {
  open: "settled here, checks passed",
  wrong: "settled here, CHECKS FAILED",
  unreachable: "settled here, NOT REACHED YET",
  unknown: "settled here",
};

function describeWallet({ network, address, source, funds }: Wallet): Row {
  return [network, `${address}  key from ${source}${funds === null ? "" : `  ${funds}`}`];
}

function listeners(config: Config, { gateway, facilitator, admin }: Running["addresses"]): Row[] {
  const names = sitesOf(config)
    .flatMap(({ publicUrl }) => publicUrl ?? [])
    .join(", ");
  const rows: Row[] = gateway.map((address, index) => {
    const { sidecar } = config;
    if (sidecar !== null) {
      const text = `${url(address)}/check  asked by ${sidecar.proxy}  as ${names}`;
      return ["sidecar", text];
    }
    const place = url(address, config.listen[index]?.tls ? "https" : "http");
    return ["gateway", `${place}  as ${names === "" ? place : names}`];
  });
  if (facilitator !== null) {
    const { bearer, gateways } = config.facilitator;
    const isOpen = bearer === null && gateways.length === 0;
    const guard = isOpen ? "open to whoever reaches it" : "bearer token";
    const place = url(facilitator, config.facilitator.listen?.tls ? "https" : "http");
    const base = `${place}${config.facilitator.basePath}`;
    rows.push(["facilitator", `${base}/{verify,settle,supported,discovery/resources}  ${guard}`]);
  }
  if (admin !== null) {
    const page = config.admin?.timeline === true ? ",payments" : "";
    rows.push(["admin", `${url(admin)}/{metrics,livez,readyz,-/reload${page}}`]);
  }
  const { store } = config;
  const place = store.kind === "sqlite" ? store.path : store.place;
  rows.push(["store", `${store.kind} ${place}`]);
  return rows;
}

/** Nothing where one process does everything. */
function crew({ workers: written }: Config, workers: number): Row[] {
  if (workers === 1 && written === 1) return [];
  const said = workers === 1 ? "1: this process serves by itself" : `${workers} processes serve`;
  return [["workers", written === "auto" ? `${said} (auto)` : said]];
}

function describe(route: RouteSettings, config: Config): string {
  const { action } = route;
  if (action.kind !== "priced") return action.kind;
  const offers = action.offers.map(({ network, asset, amountAtomic, dollars }) =>
    dollars === null
      ? `${amountAtomic} ${asset.symbol} units on ${network}`
      : `${dollars} on ${network}`,
  );
  const ways = waysText(route, action, config);
  return [
    offers.join(", "),
    ...action.prices.map((each) => memberPrice(each, config)),
    ...ways,
  ].join("; ");
}

function memberPrice({ group, offers }: MemberPrice, { members }: Pick<Config, "members">): string {
  const held = members.holders[group];
  const who = held === undefined ? group : `${group} (${holdersText(held)})`;
  const amounts = offers.map(({ asset, amountAtomic, dollars }) => {
    return dollars ?? `${amountAtomic} ${asset.symbol} units`;
  });
  return `${who} ${offers.length === 0 ? "free" : [...new Set(amounts)].join(", ")}`;
}

function networks(
  config: Config,
  probes: Running["probes"],
  feePayers: readonly FeePayer[],
): Row[] {
  const embedded = config.facilitator.embedded.map((settings): Row => {
    const { network, rpc } = settings;
    const state = probes.find((probe) => probe.network === network)?.state ?? "unknown";
    const hosts = rpc.map(({ host }) => host).join(", ");
    return [network, `${STATES[state]}, rpc ${hosts}, ${countsAt(settings)}`];
  });
  const remote = config.facilitator.remote.map(({ url: at }): Row => [
    "others",
    `settled by ${at}`,
  ]);
  return [...embedded, ...feePayers.map(describeFeePayer), ...remote];
}

function describeFeePayer({ network, address }: FeePayer): Row {
  const told = address === null ? "NOT KNOWN YET, nothing is sold there" : address;
  return [network, `settled by others, fee payer ${told}`];
}

/** From when on a settlement counts. */
function countsAt(settings: EmbeddedNetwork): string {
  if (settings.kind === "solana") return settings.commitment;
  const { confirmations } = settings;
  return `${confirmations} confirmation${confirmations === 1 ? "" : "s"}`;
}

function warnings(probes: Running["probes"], problems: readonly Problem[]): Row[] {
  const found = probes.flatMap(({ network, findings }) =>
    findings.map(({ message }): Row => [network, message]),
  );
  const written = problems
    .filter(({ severity }) => severity === "warning")
    .map(({ file, line, message }): Row => [`${file}:${line}`, message]);
  return [...found, ...written];
}

function format(rows: readonly Row[]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, text]) => `  ${label.padEnd(width)}  ${text}`).join("\n");
}

function url({ address, family, port }: AddressInfo, scheme = "http"): string {
  return `${scheme}://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
