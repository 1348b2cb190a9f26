/**
 * What the sizing stands on: one local network with a block each second, one PostgreSQL, one backend, one load
 * generator, and gateways that sell before them; and the CPU that each of them has taken.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { startChain, type Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { freshAccount, requirementsFor, type FreshAccount } from "../../support/payer.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { quickPayment } from "../../support/quick-payer.ts";
import { secp256k1 } from "../../../src/mechanism/evm/signature.ts";
import { blocksOf } from "../../../src/mechanism/evm/network-blocks.ts";
import { startCoinslot } from "../contenders/coinslot.ts";
import { PAY_TO, PRICED_ROUTES } from "../contenders/wares.ts";
import {
  descendantNamed,
  endedCpuMicros,
  mainThreadMicros,
  preciseCpuMicros,
  startProgram,
  type Program,
  type Running,
} from "../process.ts";
import { paidRequest } from "../proxy/payments.ts";
import { post } from "../rounds.ts";
import { versionOfServer, writtenSoFar } from "./database.ts";
import { sized } from "../size.ts";

export const BLOCK_SECONDS = 1;
const VALID_SECONDS = 3_600;
/** PostgreSQL's own defaults, in place of what makes tests quick. */
const SETTINGS = ["fsync=on", "synchronous_commit=on", "autovacuum=on", "shared_buffers=128MB"];
/** So many that none of them has to wait for another payment of his own. */
const PAYERS = sized(100, 8);
const PAYER_TOKENS = 1_000_000_000n;
const SIGNER_WEI = 10n ** 20n;

export interface Shop {
  readonly url: string;
  /** Where it settles for others. */
  readonly facilitatorUrl: string;
  readonly server: Running;
  readonly signer: FreshAccount;
  /** False for a replica whose signer an earlier one has. */
  readonly isSigning: boolean;
}

export interface ShopOptions {
  readonly store: string;
  readonly workers: number;
  /** Another replica's, which has it. Default: one of its own. */
  readonly signer?: FreshAccount;
}

/** Of one shop. */
export interface ShopReading {
  readonly gateway: number;
  readonly thread: number;
  /** In blocks; and of them, those in blocks that are not final. */
  readonly transactions: number;
  readonly unfinal: number;
}

/** CPU so far, microseconds, and what the network has of our transactions. */
export interface Reading {
  readonly atMs: number;
  readonly shops: readonly ShopReading[];
  readonly postgres: number;
  readonly node: number;
  /** In all databases: transactions that wrote, and bytes of write-ahead log. */
  readonly commits: number;
  readonly walBytes: number;
}

export class SizingStage implements AsyncDisposable {
  readonly folder: string;
  readonly chain: Chain;
  readonly postgres: PostgresServer;
  readonly load: Program;
  readonly #backend: Running;
  readonly #keys: readonly Uint8Array[];
  readonly #client: Client;
  readonly #pids: { readonly postgres: number; readonly node: number };
  readonly #closing: AsyncDisposableStack;
  readonly #requirements;
  readonly finalBlocks: number;
  #signed = 0;

  private constructor(
    parts: {
      readonly folder: string;
      readonly chain: Chain;
      readonly postgres: PostgresServer;
      readonly load: Program;
      readonly backend: Running;
      readonly keys: readonly Uint8Array[];
      readonly client: Client;
    },
    closing: AsyncDisposableStack,
  ) {
    this.folder = parts.folder;
    this.chain = parts.chain;
    this.postgres = parts.postgres;
    this.load = parts.load;
    this.#backend = parts.backend;
    this.#keys = parts.keys;
    this.#client = parts.client;
    this.#pids = { postgres: descendantNamed("postgres"), node: descendantNamed("anvil") };
    this.#closing = closing;
    const { name } = parts.chain.network;
    this.finalBlocks = Number(blocksOf(name).finalAfter);
    const members = { payTo: PAY_TO, maxTimeoutSeconds: VALID_SECONDS };
    this.#requirements = requirementsFor(name, members);
  }

  /** @param folder for configurations and ledgers; the caller removes it */
  static async open(folder: string): Promise<SizingStage> {
    await using closing = new AsyncDisposableStack();
    const chain = closing.use(await startChain({ blockTime: BLOCK_SECONDS }));
    const postgres = closing.use(await startPostgres({ settings: SETTINGS }));
    const program = async (file: string): Promise<Program> => {
      const started = await startProgram(new URL(file, import.meta.url));
      closing.defer(() => started.stop());
      return started;
    };
    const load = await program("../load.ts");
    const backend = await program("../contenders/backend.ts");
    const keys = Array.from({ length: PAYERS }, () => randomBytes(32));
    for (const key of keys) {
      await chain.fund(`0x${secp256k1.addressOf(key).slice(2)}`, PAYER_TOKENS);
    }
    const client = new Client({ connectionString: postgres.url });
    await client.connect();
    closing.defer(() => client.end());
    // A seller has been paid before.
    await chain.fund(PAY_TO, 1n);
    return new SizingStage(
      { folder, chain, postgres, load, backend, keys, client },
      closing.move(),
    );
  }

  /** One more load generator. */
  async moreLoad(): Promise<Program> {
    const started = await startProgram(new URL("../load.ts", import.meta.url));
    this.#closing.defer(() => started.stop());
    return started;
  }

  async shop({ store, workers, signer: shared }: ShopOptions): Promise<Shop> {
    const signer = shared ?? freshAccount();
    await this.chain.fund(signer.address, 0n, SIGNER_WEI);
    const own = await mkdtemp(join(this.folder, "shop-"));
    const port = await freePort();
    const network = this.chain.network.name;
    const config = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
admin: 127.0.0.1:0
upstream: ${this.#backend.url}
payTo: "${PAY_TO}"
accept: [${network}]
facilitator:
  listen: 127.0.0.1:${port}
  embedded:
    networks:
      ${network}: { rpc: ["${this.chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
store: "${store}"
workers: ${workers}
routes:
  GET /files/*: free
${PRICED_ROUTES.map((path) => `  GET ${path}: $0.01`).join("\n")}
`;
    const server = await startCoinslot(own, config, "gateway", {
      env: { SIGNER: signer.privateKey },
    });
    this.#closing.defer(() => server.stop());
    return {
      url: server.url,
      facilitatorUrl: `http://127.0.0.1:${port}`,
      server,
      signer,
      isSigning: shared === undefined,
    };
  }

  /** Whole requests, each with a payment of its own. */
  sales(count: number): Uint8Array[] {
    const [path = "/"] = PRICED_ROUTES;
    return this.#payments(count).map((payment) => paidRequest(path, payment));
  }

  /** Whole requests to the facilitator, each with a payment of its own. */
  calls(path: "/verify" | "/settle", count: number): Uint8Array[] {
    return this.#payments(count).map((payment) => {
      const paymentPayload: unknown = JSON.parse(Buffer.from(payment, "base64").toString());
      const paymentRequirements = this.#requirements;
      return post(path, JSON.stringify({ x402Version: 1, paymentPayload, paymentRequirements }));
    });
  }

  async read(shops: readonly Shop[]): Promise<Reading> {
    const newest = Number(await this.chain.rpc("eth_blockNumber"));
    const final = `0x${Math.max(0, newest - this.finalBlocks).toString(16)}`;
    const sent = [];
    for (const { isSigning, signer } of shops) {
      const transactions = isSigning ? await this.#sent(signer.address, "latest") : 0;
      const old = isSigning ? await this.#sent(signer.address, final) : 0;
      sent.push({ transactions, unfinal: transactions - old });
    }
    const { postgres, node } = this.#pids;
    const written = await writtenSoFar(this.#client);
    return {
      atMs: performance.now(),
      shops: sent.map((each, at) => {
        const pid = shops[at]?.server.pid ?? 0;
        return { ...each, gateway: preciseCpuMicros(pid), thread: mainThreadMicros(pid) };
      }),
      // Connections that nobody needs any more end with their process.
      postgres: preciseCpuMicros(postgres) + endedCpuMicros(postgres),
      node: preciseCpuMicros(node),
      ...written,
    };
  }

  /** As it calls itself. */
  postgresVersion(): Promise<string> {
    return versionOfServer(this.#client);
  }

  /** A connection to one database; the caller ends it. */
  async client(url: string): Promise<Client> {
    const client = new Client({ connectionString: url });
    await client.connect();
    return client;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#closing.disposeAsync();
  }

  async #sent(address: string, block: string): Promise<number> {
    return Number(await this.chain.rpc("eth_getTransactionCount", [address, block]));
  }

  #payments(count: number): string[] {
    return Array.from({ length: count }, () => {
      this.#signed += 1;
      const key = this.#keys[this.#signed % this.#keys.length] ?? randomBytes(32);
      return quickPayment(key, this.#requirements, VALID_SECONDS);
    });
  }
}
