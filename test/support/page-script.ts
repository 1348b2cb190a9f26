/**
 * Bundles the scripts of the pages, as `npm run -s page` writes them into `src/web/*-script.json`. They are kept
 * with the sources, so that the gateway starts from them without a build.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { rolldown } from "rolldown";

const ROOT = join(import.meta.dirname, "../..");

/** Each has its entry in `src/web/browser/`; what pays is written once for each version of the protocol. */
export const PAGE_SCRIPTS = [
  "paywall-v1",
  "paywall-v2",
  "requests",
  "catalogue",
  "overview",
] as const;

type PageScript = (typeof PAGE_SCRIPTS)[number];

/** Where it is kept. */
export function scriptFile(name: PageScript): string {
  return join(ROOT, `src/web/${name}-script.json`);
}

/** The whole file. */
export async function writePageScript(name: PageScript): Promise<string> {
  const [entry = "", version] = name.split("-");
  const input = join(ROOT, `src/web/browser/${entry}.ts`);
  const transform = { define: { IS_V2: String(version === "v2") } };
  await using bundle = await rolldown({ input, platform: "browser", tsconfig: false, transform });
  const { output } = await bundle.generate({ format: "iife", minify: true });
  // Whoever reads it does not bundle it once more.
  const script = output[0].code.trim().replaceAll("/* @__PURE__ */ ", "");
  // It stands in the page as it is.
  if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
  return `${JSON.stringify({ script }, null, 2)}\n`;
}

if (import.meta.main) {
  for (const name of PAGE_SCRIPTS) await writeFile(scriptFile(name), await writePageScript(name));
}
