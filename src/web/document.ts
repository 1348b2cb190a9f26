/** A page of ours as one document that loads nothing: its style and its script are in it, and known by their hashes. */
import { createHash } from "node:crypto";
import { html, trusted, type Html } from "./html.ts";
import { DOCUMENT_CSS, THEME_CSS } from "./theme.ts";

/** What all documents of one kind share. */
export interface DocumentKind {
  readonly open: (title: string, body: Html) => string;
  /** Value of `Content-Security-Policy`. */
  readonly policy: string;
}

/** `css` stands behind the theme; `script` runs when the document is read, "" for none. */
export function documentKind(css: string, script: string): DocumentKind {
  const style = THEME_CSS + DOCUMENT_CSS + css;
  const policy = [
    "default-src 'none'",
    `style-src '${hashOf(style)}'`,
    ...(script === "" ? [] : [`script-src '${hashOf(script)}'`]),
    // Without an icon of no bytes browsers ask for one.
    "img-src data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join("; ");
  const open = (title: string, body: Html): string => `<!doctype html>
${String(html`<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${trusted(style)}</style>
</head>
<body>
${body}
${script !== "" && html`<script>${trusted(script)}</script>`}
</body>
</html>`)}
`;
  return { open, policy };
}

function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}
