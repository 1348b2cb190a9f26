import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import { Site } from "../support/serve.ts";

const DISK_BYTES = 4 * 1024 * 1024;
/** What could not be stored in time is waited for as long as any settlement (`settlementWait`), at each attempt. */
const TIMEOUT_MS = 60_000;
/** Mounting in a namespace of one's own needs a kernel that allows it (Debian and Ubuntu do). */
const canMount =
  spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0;

let chain: Chain;
const signer = freshAccount();
const payee = freshAccount();

beforeAll(async () => {
  chain = await startChain();
  await chain.fund(signer.address, 0n, 10n ** 18n);
});
afterAll(() => chain.stop());

describe.skipIf(!canMount)("a full disk", () => {
  it(
    "takes no payment, says so with 500, and sells again once there is room",
    { timeout: TIMEOUT_MS },
    async () => {
      const seen: string[] = [];
      const backend = createServer((request, response) => {
        seen.push(request.url ?? "");
        response.end("fine");
      });
      const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
      await using site = await Site.create({ diskBytes: DISK_BYTES });
      const served = await site.serve(yaml(`http://127.0.0.1:${port}`), {
        SIGNER: signer.privateKey,
      });
      await served.untilReady();
      const url = `${served.url}/weather`;
      const before = await richBuyer(chain);
      expect(await present(url, await sign(before, url))).toMatchObject({ status: 200 });

      const filler = join(site.diskOf(served), "filler");
      await fill(filler);
      expect(await served.untilReady(503)).toContain("ledger");
      const gauge = async (): Promise<readonly string[]> => {
        const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
        return metrics.split("\n").filter((line) => /^coinslot_network_(open|closed)/.test(line));
      };
      const network = `network="${chain.network.name}"`;
      expect(await gauge()).toEqual([
        `coinslot_network_open{${network}} 0`,
        `coinslot_network_closed_reason{${network},reason="ledger"} 1`,
      ]);
      const buyer = await richBuyer(chain);
      const header = await sign(buyer, url);
      const sent = await chain.rpc("eth_getTransactionCount", [signer.address, "pending"]);
      for (let attempt = 0; attempt < 5; attempt += 1) {
        expect(await present(url, header)).toMatchObject({ status: 500, receipt: undefined });
      }
      expect(await chain.rpc("eth_getTransactionCount", [signer.address, "pending"])).toBe(sent);
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
      expect(seen).toEqual(["/weather"]);

      await rm(filler);
      await served.untilReady();
      expect(await gauge()).toEqual([`coinslot_network_open{${network}} 1`]);
      expect(await present(url, header)).toMatchObject({ status: 200, text: "fine" });
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
      expect(seen).toHaveLength(2);
      expect(await served.end("SIGTERM")).toBe(0);
      await drain(backend, AbortSignal.timeout(1_000));
    },
  );
});

/** Until not one byte more fits. */
async function fill(path: string): Promise<void> {
  const file = await open(path, "w");
  try {
    for (let size = 64 * 1024; size >= 1; size = Math.floor(size / 4)) {
      await writeUntilFull(file, Buffer.alloc(size));
    }
  } finally {
    await file.close();
  }
}

async function writeUntilFull(
  file: Awaited<ReturnType<typeof open>>,
  block: Buffer,
): Promise<void> {
  for (let blocks = 0; blocks * block.length <= DISK_BYTES; blocks += 1) {
    const isFull = await file.write(block).then(
      ({ bytesWritten }) => bytesWritten < block.length,
      (cause: unknown) => Object(cause).code === "ENOSPC",
    );
    if (isFull) return;
  }
}

function yaml(upstream: string): string {
  return `
upstream: ${upstream}
payTo: "${payee.address}"
accept: [${chain.network.name}]
facilitator:
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
shutdown: 5s
limits: { settlementWait: 5s }
routes:
  GET /weather: { price: $0.01, description: Weather }
`;
}
