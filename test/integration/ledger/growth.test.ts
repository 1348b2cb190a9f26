/** What is told of a ledger's age, in small: that it runs, and that an old ledger is asked what a young one is. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const BENCH = join(import.meta.dirname, "../../bench/growth.ts");

test("an old ledger is compared with a young one", { timeout: 120_000 }, async () => {
  const sizes = ["--sales", "3000", "--rows", "600", "--young", "300", "--rounds", "1"];
  const { stdout } = await promisify(execFile)(process.execPath, [BENCH, ...sizes]);
  expect(stdout).toMatch(/3000 sales: 600 rows and 2400 tombstones in a file of 0\.0\d GB/);
  for (const name of ["start", "claim", "sale", "list", "watch", "counts", "payments"]) {
    expect(stdout).toMatch(new RegExp(`^ +${name} +\\d+\\.\\d{3} +\\d+\\.\\d{3}$`, "m"));
  }
  expect(stdout).toMatch(/CPU of a step of a sweep .*: \d/);
});

const YEAR = join(import.meta.dirname, "../../year/year.ts");

test(
  "a month in a box: every sale is in the books, and each day has its reloads",
  { timeout: 120_000 },
  async () => {
    const words = ["--expose-gc", YEAR, "--sales", "150", "--days", "31", "--keep", "5"];
    const { stdout } = await promisify(execFile)(process.execPath, words);
    expect(stdout).toContain("155 sales in the books, 62 reloads of which 0 were refused");
    expect(stdout).not.toContain("MISSED");
  },
);
