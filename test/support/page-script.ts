/**
 * Bundles the script of the paywall page, as `npm run -s page` writes it into `src/web/paywall-script.json`. It
 * is kept with the sources, so that the gateway starts from them without a build.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { rolldown } from "rolldown";

const ROOT = join(import.meta.dirname, "../..");
const ENTRY = join(ROOT, "src/web/browser/paywall.ts");
const SCRIPT = join(ROOT, "src/web/paywall-script.json");

/** The whole file. */
export async function writePageScript(): Promise<string> {
  await using bundle = await rolldown({ input: ENTRY, platform: "browser", tsconfig: false });
  const { output } = await bundle.generate({ format: "iife", minify: true });
  // Whoever reads it does not bundle it once more.
  const script = output[0].code.trim().replaceAll("/* @__PURE__ */ ", "");
  // It stands in the page as it is.
  if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
  return `${JSON.stringify({ script }, null, 2)}\n`;
}

if (import.meta.main) await writeFile(SCRIPT, await writePageScript());
