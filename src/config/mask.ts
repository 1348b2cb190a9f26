/**
 * The text of a file with its secrets blotted out, character by character, so that problems can quote
 * lines of it and columns still fit.
 */
import type { Located, Path, Tree } from "./tree.ts";

const RPC_HOST = /^(?:[a-z]+:\/\/)?[^/?#@]*(?=[/?#]|$)/;

/** Where secrets belong, or wrongly stand; `*` is any key or index. */
const SECRET_PATHS: readonly (readonly [Path, RegExp?])[] = [
  [["facilitator", "auth", "bearer"]],
  [["facilitator", "remote", "*", "headers", "*"], /^Bearer /],
  // Providers put their keys behind the host.
  [["facilitator", "embedded", "networks", "*", "rpc", "*"], RPC_HOST],
  [["facilitator", "rpc", "*", "*"], RPC_HOST],
  [
    ["facilitator", "embedded", "networks", "*", "signers", "*"],
    // A name of the length of half a keypair in base58 is one.
    /^(?:env:(?![1-9A-HJ-NP-Za-km-z]{43,44}$)[A-Za-z_]\w*|file:.*)$/,
  ],
  [["upstreams", "*", "headers", "set", "*"], /^(?:Bearer|Basic) /],
  // The key itself, where somebody took the file's text for its path.
  [["upstreams", "*", "tls", "key"], /^(?!-)\S{1,255}$/],
  [["store"], /^(?:[a-z]+:\/\/|(?!.*(?::\/\/|@)).*)/s],
];
/**
 * What has the length of a private key is treated as one, wherever it stands: 32 bytes in hex, 64 bytes in
 * base58, or either as a list of numbers. Base58 of 32 bytes cannot be told from an address. The upper
 * limits keep the regular expression from exhausting its stack.
 */
const KEY_LIKE =
  /[0-9a-fA-F]{64,4096}|[1-9A-HJ-NP-Za-km-z]{80,4096}|(?:[0-9]{1,3}\s{0,64},\s{0,64}){31,255}[0-9]{1,3}/g;
/** Says where a secret is, and not what it is. */
const PLACEHOLDER = /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/;

export function maskKeys(text: string): string {
  return text.replace(KEY_LIKE, stars);
}

export function maskSecrets(text: string, tree: Tree): string {
  let masked = maskKeys(text);
  for (const [path, open] of SECRET_PATHS) {
    for (const { span } of matches(tree.root, path)) {
      const end = span.offset + span.length;
      const written = maskValue(masked.slice(span.offset, end), open);
      masked = masked.slice(0, span.offset) + written + masked.slice(end);
    }
  }
  return masked;
}

/** `open` matches the part at the beginning that may be seen. */
function maskValue(written: string, open: RegExp | undefined): string {
  const [, quote = "", value = "", close = ""] = /^(["']?)([^]*?)(\1)$/.exec(written) ?? [];
  const seen = open?.exec(value)?.[0] ?? "";
  const rest = value.slice(seen.length);
  return `${quote}${seen}${PLACEHOLDER.test(rest) ? rest : stars(rest)}${close}`;
}

function stars(text: string): string {
  return text.replace(/[^\s"']+/g, (run) => "*".repeat(run.length));
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
