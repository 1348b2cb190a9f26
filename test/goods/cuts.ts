/** Downloads that are cut at random bytes, by clients as they are in the field, which then try again in their own way. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { wrapFetchWithPayment as wrapFetchOfVersion1 } from "x402-fetch";
import { sign } from "../support/buyer.ts";
import type { Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { Random } from "../simulation/random.ts";

const MIN_BYTES = 64 * 1024 + 1;
/** More than a 402 has: what is cut is what was paid for. */
const MAX_QUOTE_BYTES = 8 * 1024;
/** Times that a client tries again. */
const TRIES = 5;
/** Of one download, atomic units. */
const PRICE = 1_000n;

export interface Cut {
  readonly client: string;
  readonly bytes: number;
  /** How many bytes of answers the client has got when its connection breaks. */
  readonly at: number;
  /** The connection is reset, not closed. */
  readonly isReset: boolean;
}

export interface CutResult extends Cut {
  readonly isComplete: boolean;
  /** How often the seller was paid. */
  readonly charges: number;
}

interface Download {
  readonly url: string;
  readonly buyer: FreshAccount;
}

/** Downloads until it has all, or gives up; resolves with the hash of what it has at last. */
type DownloadClient = (download: Download) => Promise<string>;

/** Calls its function again, as a program does that wants a file: a new payment is signed each time. */
const fetching =
  (paying: (buyer: FreshAccount) => typeof fetch): DownloadClient =>
  async ({ url, buyer }) => {
    const pay = paying(buyer);
    for (let attempt = 0; attempt < TRIES; attempt += 1) {
      try {
        const response = await pay(url);
        if (response.status !== 200) return `answered ${response.status}`;
        return createHash("sha256")
          .update(await response.bytes())
          .digest("hex");
      } catch {
        // Cut.
      }
    }
    return "never whole";
  };

/** Resumes with `Range`, and with the payment that it has. */
const curl: DownloadClient = async ({ url, buyer }) => {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-goods-"));
  const file = join(folder, "part");
  try {
    const header = `X-PAYMENT: ${await sign(buyer, url)}`;
    for (let attempt = 0; attempt < TRIES; attempt += 1) {
      const resumed = promisify(execFile)("curl", [
        "-sf",
        "-C",
        "-",
        "-o",
        file,
        "-H",
        header,
        url,
      ]);
      if (
        await resumed.then(
          () => true,
          () => false,
        )
      )
        break;
    }
    return createHash("sha256")
      .update(await readFile(file))
      .digest("hex");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

/** `curl` is Debian's. */
export const DOWNLOAD_CLIENTS: Readonly<Record<string, DownloadClient>> = {
  "x402-fetch 1.2.0": fetching(
    ({ account }) => wrapFetchOfVersion1(fetch, account) as typeof fetch,
  ),
  "@x402/fetch 2.27.0": fetching(({ account }) =>
    wrapFetchWithPayment(fetch, new x402Client().register("eip155:*", new ExactEvmScheme(account))),
  ),
  curl,
};

/** A line to the gateway that breaks once, after so many bytes of answers. */
async function cutLine(to: string, { at, isReset }: Cut) {
  let left = at;
  const server = createServer((near) => {
    const far = connect(Number(to), "127.0.0.1");
    near.on("error", () => far.destroy()).on("close", () => far.destroy());
    far.on("error", () => near.destroy()).on("close", () => near.destroy());
    near.pipe(far);
    far.on("data", (chunk) => {
      if (left > 0 && chunk.length >= left) {
        near.write(chunk.subarray(0, left), () => near.resetAndDestroy());
        left = 0;
        if (isReset) far.resetAndDestroy();
        else far.destroy();
        return;
      }
      if (left > 0) left -= chunk.length;
      if (near.write(chunk)) return;
      far.pause();
      near.once("drain", () => far.resume());
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { port, [Symbol.asyncDispose]: async () => void server.close() };
}

/** Answers `/file/SIZE` with so many bytes, and with parts of them, as file servers do. */
const serveFile: RequestListener = ({ url = "", headers }, response) => {
  const bytes = Number(url.split("/").at(-1));
  const [, first = "0"] = /^bytes=(\d+)-$/.exec(headers.range ?? "") ?? [];
  const body = fileOf(bytes).subarray(Number(first));
  const range = { "Content-Range": `bytes ${first}-${bytes - 1}/${bytes}` };
  response.writeHead(headers.range === undefined ? 200 : 206, {
    "Content-Length": body.length,
    ...(headers.range !== undefined && range),
  });
  response.end(body);
};

const PATTERN = createHash("sha512").update("goods").digest();

function fileOf(bytes: number): Buffer {
  return Buffer.alloc(bytes, PATTERN);
}

export class CutStage implements AsyncDisposable {
  readonly #chain: Chain;
  readonly #gateway: RunningGateway;

  private constructor(chain: Chain, gateway: RunningGateway) {
    this.#chain = chain;
    this.#gateway = gateway;
  }

  static async open(chain: Chain): Promise<CutStage> {
    const routes = "\n  GET /file/*: { price: $0.001, description: A file }\n";
    return new CutStage(chain, await startGateway({ chain, routes, backend: serveFile }));
  }

  async cut(cut: Cut): Promise<CutResult> {
    const buyer = freshAccount();
    await this.#chain.fund(buyer.address, 10n * PRICE);
    const { client, bytes } = cut;
    const download = DOWNLOAD_CLIENTS[client];
    if (download === undefined) throw new Error(`no client named ${client}`);
    await using line = await cutLine(new URL(this.#gateway.url).port, cut);
    const hash = await download({ url: `http://127.0.0.1:${line.port}/file/${bytes}`, buyer });
    const isComplete = hash === createHash("sha256").update(fileOf(bytes)).digest("hex");
    const left = await this.#chain.balanceOf(buyer.address);
    return { ...cut, isComplete, charges: Number((10n * PRICE - left) / PRICE) };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#gateway[Symbol.asyncDispose]();
  }
}

/** Sizes of all orders of magnitude, cut anywhere. */
export function randomCut(client: string, seed: number, maxBytes: number): Cut {
  const random = new Random(seed);
  const bytes = Math.round(
    MIN_BYTES * (maxBytes / MIN_BYTES) ** (random.between(0, 1_000) / 1_000),
  );
  const at = random.between(MAX_QUOTE_BYTES, bytes - 1);
  return { client, bytes, at, isReset: random.chance(0.5) };
}
