/** What every page of ours is checked for: what axe finds in it, in each look, and whom it asks. */
import { join } from "node:path";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { openTab, type TabOptions } from "./chromium.ts";

/** The looks that a page is checked in. */
export const LOOKS: Readonly<Record<string, TabOptions>> = {
  light: { colorScheme: "light", width: 1280 },
  dark: { colorScheme: "dark", width: 1280 },
  "320 px": { colorScheme: "light", width: 320 },
};

/** A picture of the page for people to look at, where `SCREENSHOTS` names a folder for it. */
export async function takePicture(page: Page, name: string): Promise<void> {
  const folder = process.env["SCREENSHOTS"];
  if (folder === undefined) return;
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}

/** axe's findings, each with the elements that it is about. */
export async function axeFindings(page: Page): Promise<readonly string[]> {
  // Evaluated by the debugger, which the page's policy does not bind.
  await page.evaluate(axe.source);
  const { violations } = Object(await page.evaluate("axe.run()"));
  return violations.map((each: { id: string; nodes: { html: string }[] }) => {
    return `${each.id}: ${each.nodes.map(({ html }) => html).join(" | ")}`;
  });
}

/** How wide the page is beyond its window, pixels: 0 where nothing has to be scrolled sideways. */
async function overflow(page: Page): Promise<number> {
  return Number(
    await page.evaluate(
      "document.documentElement.scrollWidth - document.documentElement.clientWidth",
    ),
  );
}

export interface LookFindings {
  readonly axe: readonly string[];
  readonly faults: readonly string[];
  readonly overflow: number;
  /** Origins that were asked. */
  readonly origins: readonly string[];
}

/** Opens the page in one look. */
export async function lookAt(
  browser: Browser,
  { url, look, name }: { readonly url: string; readonly look: TabOptions; readonly name: string },
): Promise<LookFindings> {
  await using tab = await openTab(browser, look);
  await tab.page.goto(url);
  await tab.page.evaluate(
    "for (const each of document.querySelectorAll('details')) each.open = true",
  );
  await takePicture(tab.page, `${name}-${look.colorScheme ?? ""}-${look.width ?? ""}`);
  return {
    axe: await axeFindings(tab.page),
    faults: tab.faults,
    overflow: await overflow(tab.page),
    origins: [...new Set(tab.requested.map((each) => new URL(each).origin))],
  };
}
