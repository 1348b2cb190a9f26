/** Where the process listens: each address once. */
import type { Context } from "./context.ts";
import type { ConfigDocument } from "./document.ts";
import { fault } from "./reading.ts";
import type { ListenAddress } from "./settings.ts";
import type { Path } from "./tree.ts";

type WrittenListener = Exclude<NonNullable<ConfigDocument["listen"]>, readonly unknown[]>;

const DEFAULT_LISTENER: ListenAddress = { host: null, port: 8402 };

export function listenAddress(written: WrittenListener): ListenAddress {
  return "address" in written ? written.address : written;
}

/** The public listeners. */
export function resolveListen({ document, tree, problems }: Context): readonly ListenAddress[] {
  const { listen = DEFAULT_LISTENER } = document;
  if (!Array.isArray(listen)) return [listenAddress(listen)];
  if (listen.length === 0 && tree.intact(["listen"])) {
    problems.error(["listen"], fault("bad-value", "must have at least one address"));
  }
  return listen.map(listenAddress);
}

interface Named {
  readonly path: Path;
  readonly address: ListenAddress;
}

/** Two listeners on one address: the second would fail at start, or serve what the first should. */
export function checkListeners({ document, problems }: Context): void {
  const { listen, admin, facilitator, routes } = document;
  const named: Named[] = [];
  if (Array.isArray(listen)) {
    for (const [index, each] of listen.entries()) {
      named.push({ path: ["listen", index], address: listenAddress(each) });
    }
  } else if (listen !== undefined) {
    named.push({ path: ["listen"], address: listenAddress(listen) });
  } else if (routes !== undefined) {
    named.push({ path: ["listen"], address: DEFAULT_LISTENER });
  }
  if (admin !== undefined) named.push({ path: ["admin"], address: admin });
  if (typeof facilitator === "object" && facilitator.listen !== undefined) {
    const address = listenAddress(facilitator.listen);
    named.push({ path: ["facilitator", "listen"], address });
  }
  for (const [index, { path, address }] of named.entries()) {
    const rival = named.slice(0, index).find((each) => collide(each.address, address));
    if (rival === undefined) continue;
    const message = `this address is already taken by ${nameOf(rival.path)}`;
    problems.error(path, fault("address-taken", message));
  }
}

function collide(left: ListenAddress, right: ListenAddress): boolean {
  if (left.port !== right.port || left.port === 0) return false;
  return left.host === right.host || left.host === null || right.host === null;
}

function nameOf(path: Path): string {
  return path
    .map((step) => (typeof step === "number" ? `[${step}]` : step))
    .join(".")
    .replaceAll(".[", "[");
}
