/** A headless Chromium, whose every request is noted. */
import { existsSync } from "node:fs";
import {
  chromium,
  type Browser,
  type BrowserContext,
  type Page,
  type Request,
} from "playwright-core";

/** The first that is there: the shell is the same browser without its windows, for half of the CPU. */
const EXECUTABLES = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
/** Longest that anything may take to be seen, milliseconds. */
const PATIENCE_MS = 15_000;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"];

const executablePath = EXECUTABLES.find((each) => existsSync(each));
export const hasChromium = executablePath !== undefined;
/** Stands in the title of what is skipped without it. */
export const CHROMIUM = hasChromium ? "in Chromium" : "in Chromium (apt-get install chromium)";

export function openBrowser(): Promise<Browser> {
  return chromium.launch({
    ...(executablePath === undefined ? {} : { executablePath }),
    args: FLAGS,
  });
}

/** A tab in a profile of its own. */
export interface Tab {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Every URL that was asked for, `data:` and `blob:` aside. */
  readonly requested: readonly string[];
  /** What the page did that it must not do: violations of its policy, errors, dialogs. */
  readonly faults: readonly string[];
  [Symbol.asyncDispose](): Promise<void>;
}

export interface TabOptions {
  readonly colorScheme?: "light" | "dark";
  readonly width?: number;
  readonly hasScripts?: boolean;
}

export async function openTab(browser: Browser, options: TabOptions = {}): Promise<Tab> {
  const { colorScheme = "light", width = 800, hasScripts = true } = options;
  const context = await browser.newContext({
    colorScheme,
    viewport: { width, height: 800 },
    javaScriptEnabled: hasScripts,
    // Nothing moves, so that a picture is the same each time.
    reducedMotion: "reduce",
  });
  const requested: string[] = [];
  const faults: string[] = [];
  // What the page's policy stops is announced as a request, too, but does not finish, and fails for that reason.
  const note = (request: Request): void => {
    const url = request.url();
    if (/^https?:/.test(url) && request.failure()?.errorText !== "csp") requested.push(url);
  };
  context.on("requestfinished", note);
  context.on("requestfailed", note);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    const text = message.text();
    // The 402 itself is told as an error.
    if (message.type() === "error" && !/status of \d{3}/.test(text)) faults.push(text);
  });
  return {
    page,
    context,
    requested,
    faults,
    [Symbol.asyncDispose]: () => context.close(),
  };
}
