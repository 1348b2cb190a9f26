/**
 * Where cases are played: a local node for each network, and facilitators before it with their REST endpoints
 * on real listeners. Slots pass only where a transaction waits for one, so that a blockhash is as old as its
 * case says. Everything is opened when the first case needs it, and serves all others after it.
 */
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { EmbeddedFacilitator } from "../../../src/payments/settlement/embedded.ts";
import { Callers } from "../../../src/facilitator/callers.ts";
import { FacilitatorEndpoints } from "../../../src/facilitator/endpoints.ts";
import { NetworkGate } from "../../../src/payments/settlement/network-gate.ts";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { createSolanaMechanism } from "../../../src/mechanism/solana/solana.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import { networkOf, type SolanaAsset, type SolanaNetwork } from "../../../src/x402/network.ts";
import { testKey } from "../../support/solana-messages.ts";
import { secretOf } from "../../support/solana-requests.ts";
import type { Injection } from "../../support/solana/faults.ts";
import {
  GENESIS_HASHES,
  startSolanaNode,
  type SolanaNode,
} from "../../support/solana/solana-node.ts";
import { assetOf, createMints, type MintName } from "./mints.ts";

export type CaseNetwork = "solana" | "solana-devnet";

/** The most that a settlement may cost where a facilitator has no other limit, lamports. */
const USUAL_CAP = 100_000n;
/** Two signatures, and nothing for priority. */
const LEAST_CAP = 10_000n;
/** Our keys by their numbers: two that most facilitators have, and one that is kept poor. */
export const FEE_PAYERS = [1, 8] as const;
const POOR_FEE_PAYER = 30;
/** The only payee of the facilitator `for one payee`. */
export const LISTED = testKey(31).address;
const FEE_PAYER_LAMPORTS = 1_000_000_000_000n;

/**
 * `usual` accepts every token that can be accepted, for anyone, with two fee payers; the others differ from it
 * in what their names say. `for that mint` serves the case's token alone, whatever it is.
 */
export const FACILITATORS = [
  "usual",
  "for one payee",
  "without Lighthouse",
  "with the lowest cap",
  "with a poor fee payer",
  "for that mint",
] as const;
type FacilitatorName = (typeof FACILITATORS)[number];

/** Mints that the usual facilitator accepts. */
const ACCEPTED: readonly MintName[] = [
  "USDC",
  "Token-2022",
  "with a transfer fee of zero",
  "with a hook that is not set",
  "whose new accounts are thawed",
  "of no decimals",
];

interface Setup {
  readonly keys: readonly number[];
  readonly payTo: readonly string[] | "any";
  readonly capLamports: bigint;
  readonly lighthouse: "assertions" | "deny";
  readonly mints: readonly MintName[];
}

const USUAL: Setup = {
  keys: FEE_PAYERS,
  payTo: "any",
  capLamports: USUAL_CAP,
  lighthouse: "assertions",
  mints: ACCEPTED,
};

const SETUPS: Readonly<Record<Exclude<FacilitatorName, "for that mint">, Setup>> = {
  usual: USUAL,
  "for one payee": { ...USUAL, payTo: [LISTED] },
  "without Lighthouse": { ...USUAL, lighthouse: "deny" },
  "with the lowest cap": { ...USUAL, capLamports: LEAST_CAP },
  "with a poor fee payer": { ...USUAL, keys: [POOR_FEE_PAYER] },
};

/** What an RPC endpoint has to say for itself. */
const faults = {
  "cannot be reached": { drop: true },
  "is overloaded": { status: 429 },
  "answers with a web page": { status: 200, body: "<h1>Welcome</h1>" },
  "cannot simulate": {
    method: "simulateTransaction",
    error: { code: -32_005, message: "Node is unhealthy" },
  },
  "answers a simulation with nothing": { method: "simulateTransaction", result: null },
  "cannot show accounts": { method: "getMultipleAccounts", drop: true },
} satisfies Record<string, Injection>;

type NodeFault = keyof typeof faults;
export const NODE_FAULTS = Object.keys(faults) as NodeFault[];

/** A facilitator that answers. */
export interface Facilitator {
  readonly url: string;
  readonly facilitator: EmbeddedFacilitator;
  readonly ledger: Ledger;
  readonly network: CaseNetwork;
  /** Addresses; the first is the one that buyers are to name. */
  readonly feePayers: readonly string[];
  readonly capLamports: bigint;
}

export interface Cast {
  readonly node: SolanaNode;
  readonly facilitator: Facilitator;
}

/** What a case says about where it is played. */
interface Place {
  readonly network: CaseNetwork;
  readonly facilitator: FacilitatorName;
  readonly mint: MintName;
}

export class Stage implements AsyncDisposable {
  readonly #closing = new AsyncDisposableStack();
  readonly #nodes = new Map<CaseNetwork, Promise<SolanaNode>>();
  readonly #facilitators = new Map<string, Promise<Facilitator>>();

  async cast(place: Place): Promise<Cast> {
    const { network, facilitator: name, mint } = place;
    const node = await remember(this.#nodes, network, () => this.#openNode(network));
    const setup = name === "for that mint" ? { ...USUAL, mints: [mint] } : SETUPS[name];
    const key = `${network} ${name === "for that mint" ? mint : name}`;
    const facilitator = await remember(this.#facilitators, key, () =>
      this.#openFacilitator(network, node, setup),
    );
    return { node, facilitator };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#closing.disposeAsync();
  }

  async #openNode(network: CaseNetwork): Promise<SolanaNode> {
    const genesisHash = GENESIS_HASHES[network];
    const node = this.#closing.use(await startSolanaNode({ slotMs: null, genesisHash }));
    createMints(node, network);
    node.loadLighthouseStandIn();
    const ours = [...FEE_PAYERS, POOR_FEE_PAYER].map((key) => testKey(key).address);
    for (const address of ours) {
      node.setLamports(address, FEE_PAYER_LAMPORTS);
      // Something to steal.
      await node.fundToken({
        mint: assetOf("USDC", network).address,
        owner: address,
        amount: 1_000_000n,
      });
    }
    return node;
  }

  async #openFacilitator(
    network: CaseNetwork,
    node: SolanaNode,
    setup: Setup,
  ): Promise<Facilitator> {
    const opened = await openFacilitator({ network, node, ...setup }, this.#closing);
    const endpoints = new FacilitatorEndpoints({
      facilitator: onTheWire(opened.facilitator),
      list: () => ({ status: 200, body: "{}", etag: null }),
      basePath: "",
      callers: new Callers([]),
      // What is asked of here is what the rules say of 0.
      leastAmount: () => 0n,
      logger: createLogger({ level: "silent", format: "json" }),
    });
    const server = createServer(endpoints.handle);
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    this.#closing.defer(() => drain(server, AbortSignal.timeout(1_000)));
    return { ...opened, url: `http://127.0.0.1:${port}` };
  }
}

function remember<Key, Value>(
  known: Map<Key, Promise<Value>>,
  key: Key,
  open: () => Promise<Value>,
): Promise<Value> {
  const value = known.get(key) ?? open();
  known.set(key, value);
  return value;
}

/** A facilitator without its REST endpoints: what the composition root builds, without the configuration. */
export async function openFacilitator(
  setup: Setup & { readonly network: CaseNetwork; readonly node: SolanaNode },
  closing: AsyncDisposableStack,
): Promise<Omit<Facilitator, "url">> {
  const { network, node, keys, payTo, capLamports, lighthouse, mints } = setup;
  const telemetry = {
    logger: createLogger({ level: "silent", format: "json" }),
    metrics: new Metrics("test"),
  };
  const ledger = await openSqliteLedger({ path: ":memory:", time: systemTime, life: randomUUID() });
  closing.defer(() => ledger.close());
  const assets = mints.map((name) => assetOf(name, network));
  const mechanism = createSolanaMechanism({
    network: factsOf(network),
    assets,
    rpcUrls: [node.rpcUrl],
    keys: keys.map(secretOf),
    commitment: "confirmed",
    time: systemTime,
    allowPayTo: payTo,
    maxFeeLamports: capLamports,
    lighthouse,
    // What is lost in all cases together is not what they are about.
    lighthouseLossPerHour: 1_000_000_000n,
  });
  closing.defer(() => mechanism.close());
  const gate = new NetworkGate([mechanism], telemetry, systemTime);
  closing.defer(() => gate.close());
  await gate.probe();
  const facilitator = new EmbeddedFacilitator({
    mechanisms: [mechanism],
    ledger,
    gate,
    telemetry,
    time: systemTime,
    describeAsset: (_, asset) => describe(assets, asset),
  });
  closing.defer(() => facilitator.close());
  return { facilitator, ledger, network, feePayers: mechanism.accounts, capLamports };
}

export const usualSetup: Setup = USUAL;

function factsOf(network: CaseNetwork): SolanaNetwork {
  const facts = networkOf(network);
  if (facts.kind !== "solana") throw new Error(`${network} is a Solana network`);
  return facts;
}

function describe(assets: readonly SolanaAsset[], asset: string): SolanaAsset {
  const found = assets.find(({ address }) => address === asset);
  if (found === undefined) throw new Error(`${asset} is settled, and nobody accepts it`);
  return found;
}

/** Something goes wrong with the node until the stack is disposed. */
export function spoilNode(
  node: SolanaNode,
  fault: NodeFault | undefined,
  undoing: DisposableStack | AsyncDisposableStack,
): void {
  if (fault === undefined) return;
  const injected = node.inject(faults[fault]);
  undoing.defer(() => injected.lift());
}

/** How often it is looked whether a transaction waits for a slot, milliseconds. */
const PUMP_MS = 2;
/** So that what the first one has included is confirmed by the second. */
const SLOTS_AT_ONCE = 2;

/** So often it is looked whether somebody listens, before a slot passes all the same. */
const PATIENCE = 100;

/** Lets slots pass while something waits for one, until the work is done. */
export async function withSlots<Value>(node: SolanaNode, work: Promise<Value>): Promise<Value> {
  let waits = 0;
  const pump = setInterval(() => {
    waits = node.queued === 0 ? 0 : waits + 1;
    // A real slot is longer than the way of a subscription.
    const isHeard = node.subscriptions > 0 || waits > PATIENCE;
    if (node.queued > 0 && isHeard) node.tick(SLOTS_AT_ONCE);
  }, PUMP_MS);
  try {
    return await work;
  } finally {
    clearInterval(pump);
  }
}
