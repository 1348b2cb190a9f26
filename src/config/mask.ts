/**
 * The text of a file with its secrets blotted out, character by character, so that problems can quote
 * lines of it and columns still fit.
 */
import type { Located, Path, Tree } from "./tree.ts";

/** Where secrets belong, or wrongly stand; `*` is any key or index. */
const SECRET_PATHS: readonly Path[] = [
  ["facilitator", "auth", "bearer"],
  ["facilitator", "remote", "*", "headers", "*"],
  ["facilitator", "embedded", "networks", "*", "rpc", "*"],
  ["facilitator", "embedded", "networks", "*", "signers", "*"],
  ["store"],
];
/** What has the length of a private key is treated as one, wherever it stands. */
const KEY_LIKE = /[0-9a-fA-F]{64,}/g;
/** References and placeholders say where a secret is and not what it is; so do hosts and SQLite paths. */
const OPEN =
  /^["']?(?:(?:Bearer |env:|file:)?(?:\$\{[A-Za-z_][A-Za-z0-9_]*\})|env:[A-Za-z_][A-Za-z0-9_]*|file:.*|sqlite:.*)["']?$/;
const ORIGIN = /^["']?https?:\/\/[^/?#@]*(?=[/?#"']|$)/;

export function maskSecrets(text: string, tree: Tree): string {
  let masked = text.replace(KEY_LIKE, stars);
  for (const path of SECRET_PATHS) {
    for (const { span } of matches(tree.root, path)) {
      const end = span.offset + span.length;
      const written = masked.slice(span.offset, end);
      masked = masked.slice(0, span.offset) + maskValue(written) + masked.slice(end);
    }
  }
  return masked;
}

function maskValue(written: string): string {
  if (OPEN.test(written)) return written;
  const origin = ORIGIN.exec(written)?.[0] ?? "";
  return origin + stars(written.slice(origin.length));
}

function stars(text: string): string {
  return text.replace(/[^\s"']/g, "*");
}

function matches(located: Located, path: Path): readonly Located[] {
  const [step, ...rest] = path;
  if (step === undefined) return [located];
  if (located.kind === "scalar") return [];
  if (located.kind === "sequence") {
    return step === "*" ? located.elements.flatMap((each) => matches(each, rest)) : [];
  }
  const entries = [...located.entries].filter(([key]) => step === "*" || key === step);
  return entries.flatMap(([, entry]) => matches(entry.value, rest));
}
