/**
 * How every page of ours looks: one small style sheet with the colours of both colour schemes, the type, the
 * buttons and the focus ring. Each page adds its own rules behind it. Every pair of colours here has at least
 * the contrast of 4.5 to 1 that text needs.
 *
 * Custom properties: `--bg` page, `--card` raised surface, `--line` borders, `--text`, `--dim` quieter text,
 * `--accent` links and main buttons, `--on` text upon the accent, `--bad`, `--good`.
 * Classes: `.card`, `.dim`, `.mono`, `.bad`, `.good`, `.quiet` (a button of less weight), `.hidden-text` (for
 * screen readers only).
 */

/** CSS without line breaks between its rules; it goes first into a page's one `<style>` element. */
export const THEME_CSS = [
  ":root{color-scheme:light dark;--bg:#f5f6f8;--card:#fff;--line:#d4d9e0;--text:#16191d;--dim:#545c66;",
  "--accent:#1648c0;--on:#fff;--bad:#a8201a;--good:#126b35}",
  "@media(prefers-color-scheme:dark){:root{--bg:#101317;--card:#1a1e24;--line:#343b45;--text:#eceff3;",
  "--dim:#a5aeba;--accent:#8fb4ff;--on:#0b1526;--bad:#ff9d94;--good:#74d79a}}",
  "*{box-sizing:border-box}",
  "body{margin:0;padding:1rem;background:var(--bg);color:var(--text);",
  "font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}",
  "h1{font-size:1.35rem;line-height:1.25;margin:0 0 .5rem}",
  "p{margin:.5rem 0}a{color:var(--accent)}",
  ".card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.25rem}",
  ".dim{color:var(--dim)}.bad{color:var(--bad)}",
  ".mono,code,pre{font-family:ui-monospace,monospace;font-size:.875em}",
  "pre{white-space:pre-wrap;background:var(--bg);border:1px solid var(--line);border-radius:8px;",
  "padding:.5rem .75rem;margin:.5rem 0}",
  "button,select,input{font:inherit;color:inherit;background:var(--card);border:1px solid var(--dim);",
  "border-radius:8px;padding:.6rem .9rem;min-height:2.75rem}",
  "button{background:var(--accent);border-color:var(--accent);color:var(--on);font-weight:600;",
  "cursor:pointer}button.quiet{background:none;color:var(--accent)}button:disabled{cursor:wait;",
  "background:none;border-color:var(--dim);color:var(--dim)}",
  ":focus-visible{outline:3px solid var(--accent);outline-offset:2px}",
  "[hidden]{display:none!important}",
].join("");

/** What only pages with more than one heading need; not the paywall, where every byte counts. */
export const DOCUMENT_CSS = [
  "h2{font-size:1.05rem;margin:1rem 0 .5rem}.good{color:var(--good)}",
  ".hidden-text{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);",
  "white-space:nowrap}",
].join("");
