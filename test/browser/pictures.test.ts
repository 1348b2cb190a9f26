/** `npm run pictures` works: it starts the product, buys, and leaves pictures that a README can show. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { CHROMIUM, hasChromium } from "./chromium.ts";

const COMMAND = join(import.meta.dirname, "../support/pictures.ts");
/** Of each, so that a README is soon there. */
const MOST_BYTES = 150_000;
/** A chain, a Solana, a gateway and a browser are started, on a machine that is busy with other tests. */
const PATIENCE_MS = 240_000;

test.skipIf(!hasChromium)(
  `takes both pages and draws the plot, ${CHROMIUM}`,
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-pictures-"));
    try {
      await promisify(execFile)(process.execPath, [COMMAND, folder], { timeout: PATIENCE_MS });
      for (const name of ["paywall.png", "payments.png"]) {
        const png = await readFile(join(folder, name));
        expect(png.toString("latin1", 1, 4), name).toBe("PNG");
        expect(png.readUInt32BE(16), name).toBeGreaterThan(1_200);
        expect((await stat(join(folder, name))).size, name).toBeLessThan(MOST_BYTES);
      }
      expect(await readFile(join(folder, "how-it-compares.svg"), "utf8")).toMatch(/^<svg .*>\n/);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
  PATIENCE_MS,
);
