/** The table that `serve` prints once: what listens where, what costs what, what to look at. */
import type { AddressInfo } from "node:net";
import type { Running } from "../app.ts";
import type { Config, Problem, Route } from "../config/config.ts";

type Row = readonly [label: string, text: string];

export function startTable(
  config: Config,
  { addresses, probes }: Running,
  problems: readonly Problem[],
): string {
  const sections: (readonly [title: string, rows: readonly Row[]])[] = [
    ["listeners", listeners(config, addresses)],
    ["routes", config.routes.map((route) => [route.key, describe(route)] as const)],
    ["networks", networks(config, probes)],
    ["warnings", warnings(probes, problems)],
  ];
  return sections
    .filter(([, rows]) => rows.length > 0)
    .map(([title, rows]) => `${title}\n${format(rows)}\n`)
    .join("\n");
}

function listeners(config: Config, { gateway, facilitator, admin }: Running["addresses"]): Row[] {
  const rows: Row[] = gateway.map((address) => [
    "gateway",
    `${url(address)}  as ${config.publicUrl ?? url(address)}`,
  ]);
  if (facilitator !== null) {
    const guard =
      config.facilitator.bearer === null ? "open to whoever reaches it" : "bearer token";
    const base = `${url(facilitator)}${config.facilitator.basePath}`;
    rows.push(["facilitator", `${base}/{verify,settle,supported,discovery/resources}  ${guard}`]);
  }
  if (admin !== null) rows.push(["admin", `${url(admin)}/{metrics,livez,readyz}`]);
  rows.push(["store", `sqlite ${config.store.path}`]);
  return rows;
}

function describe({ action }: Route): string {
  if (action.kind !== "priced") return action.kind;
  const offers = action.offers.map(({ network, asset, amountAtomic, dollars }) =>
    dollars === null
      ? `${amountAtomic} ${asset.symbol} units on ${network}`
      : `${dollars} on ${network}`,
  );
  return offers.join(", ");
}

function networks(config: Config, probes: Running["probes"]): Row[] {
  const embedded = config.facilitator.embedded.map(({ network, rpc, signers }): Row => {
    const state = probes.find((probe) => probe.network === network)?.state ?? "unknown";
    const keys = signers.map(({ source }) => source).join(", ");
    return [
      network,
      `settled here, ${state}, rpc ${rpc[0]?.host ?? "none"}, pays gas from ${keys}`,
    ];
  });
  const remote = config.facilitator.remote.map(({ url: at }): Row => [
    "others",
    `settled by ${at}`,
  ]);
  return [...embedded, ...remote];
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

function url({ address, family, port }: AddressInfo): string {
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
