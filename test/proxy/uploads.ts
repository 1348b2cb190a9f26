/**
 * Uploads of 1 to 40 MiB to a priced path, 200 of each size by each client: `npm run prove:uploads`, `-- --each N` for
 * another number, `--client NAME` for those whose names have it. Ends with 1 where a client learns of a transport error in place of its answer.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Proving } from "./proofs.ts";
import { missing, UPLOAD_CLIENTS } from "./upload-clients.ts";

const SIZES_MIB = [1, 8, 40];
const options = {
  each: { type: "string", default: "200" },
  client: { type: "string", default: "" },
} as const;
const { values } = parseArgs({ options });
const each = Number(values.each);

const folder = await mkdtemp(join(tmpdir(), "coinslot-uploads-"));
await using closing = new AsyncDisposableStack();
closing.defer(() => rm(folder, { recursive: true, force: true }));
const plain = closing.use(await Proving.start());
const secure = closing.use(await Proving.start({ isTls: true }));
let failed = 0;
for (const client of UPLOAD_CLIENTS.filter(({ name }) => name.includes(values.client))) {
  const lacks = await missing(client);
  if (lacks !== null) {
    console.log(`${client.name}: skipped, ${lacks}`);
    continue;
  }
  const { port } = client.isTls ? secure : plain;
  const url = `${client.isTls ? "https" : "http"}://127.0.0.1:${port}/paid/upload`;
  for (const mib of SIZES_MIB) {
    const faults: string[] = [];
    const started = performance.now();
    for (let count = 0; count < each; count += 1) {
      await client.upload(url, mib, folder).catch((error: unknown) => {
        faults.push(String(Object(error).cause ?? error));
      });
    }
    failed += faults.length;
    const ms = ((performance.now() - started) / each).toFixed(0);
    const said = [...new Set(faults)].join("; ");
    console.log(`${client.name}, ${mib} MiB: ${each - faults.length} of ${each}, ${ms} ms ${said}`);
  }
}
process.exitCode = failed === 0 ? 0 : 1;
