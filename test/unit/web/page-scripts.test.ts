import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PAGE_SCRIPTS, scriptFile, writePageScript } from "../../support/page-script.ts";

test.each(PAGE_SCRIPTS)(
  "the script of %s is committed as it is; `npm run page` renews it",
  async (name) => {
    const committed = readFileSync(scriptFile(name), "utf8");

    expect(committed === (await writePageScript(name)), "stale: run `npm run page`").toBe(true);
  },
);
