/**
 * The text of a file with its secrets blotted out, character by character, so that problems can quote
 * lines of it and columns still fit.
 */
import { isNetworkName } from "../../x402/network.ts";
import type { Located, Path, Span, Tree } from "./tree.ts";

const RPC_HOST = /^(?:[a-z]+:\/\/)?[^/?#@]*(?=[/?#]|$)/;

interface SecretPlace {
  /** The last keys of its path; `*` is any key or index. */
  readonly path: Path;
  /** The part at its beginning that may be seen. */
  readonly open?: RegExp;
  /** Whether a whole map or list there is one, too. */
  readonly isWhole?: boolean;
}

/**
 * Where secrets belong, or wrongly stand. What a path begins with is left out: a slip of the pen puts them
 * elsewhere, and they are secrets there, too.
 */
const SECRET_PLACES: readonly SecretPlace[] = [
  { path: ["bearer"], isWhole: true },
  { path: ["auth"] },
  { path: ["auth", "*"] },
  { path: ["gateways", "*"] },
  { path: ["headers", "*"], open: /^Bearer / },
  { path: ["headers", "remove", "*"], open: /^.*$/s },
  { path: ["headers", "allow", "*"], open: /^.*$/s },
  { path: ["headers", "*", "*"], open: /^(?:Bearer|Basic) / },
  { path: ["set", "*"], open: /^(?:Bearer|Basic) / },
  // Providers put their keys behind the host.
  { path: ["rpc", "*"], open: RPC_HOST },
  { path: ["rpc", "*", "*"], open: RPC_HOST },
  {
    path: ["signers", "*"],
    // A name of the length of half a keypair in base58 is one.
    open: /^(?:env:(?![1-9A-HJ-NP-Za-km-z]{43,44}$)[A-Za-z_]\w*|file:.*)$/,
    isWhole: true,
  },
  { path: ["secrets"], open: /^(?:env:[A-Za-z_]\w*|file:.*)$/ },
  { path: ["secrets", "*"], open: /^(?:env:[A-Za-z_]\w*|file:.*)$/ },
  { path: ["webhooks", "*", "url"], open: /^[^?]*/ },
  { path: ["keySecret"], open: /^(?:env:[A-Za-z_]\w*|file:.*)$/, isWhole: true },
  // The key itself, where somebody took the file's text for its path.
  { path: ["tls", "key"], open: /^(?!-)\S{1,255}$/, isWhole: true },
  { path: ["store"], open: /^(?:[a-z]+:\/\/|(?!.*(?::\/\/|@)).*)/s, isWhole: true },
];
/**
 * What has the length of a private key is treated as one, wherever it stands: 32 bytes in hex, 64 bytes in
 * base58, or either as a list of numbers. Base58 of 32 bytes cannot be told from an address. The upper
 * limits keep the regular expression from exhausting its stack.
 */
const KEY_LIKE =
  /[0-9a-fA-F]{64,4096}|[1-9A-HJ-NP-Za-km-z]{80,4096}|(?:[0-9]{1,3}\s{0,64},\s{0,64}){31,255}[0-9]{1,3}/g;
/** User name and password of a URL, which stand wrongly in any but that of a database. */
const CREDENTIALS = /(?<=:\/\/)[^\s/?#"']{1,1024}(?=@)/g;
/** Says where a secret is, and not what it is. */
const PLACEHOLDER = /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/;

export function maskKeys(text: string): string {
  return text.replace(KEY_LIKE, stars);
}

/** Keys, and user names and passwords of URLs, in any text. */
export function maskText(text: string): string {
  return maskKeys(text).replace(CREDENTIALS, stars);
}

/** `unsound`: parts of the text of which the tree says nothing certain, where no value is shown that could be one. */
export function maskSecrets(text: string, tree: Tree, unsound: readonly Span[]): string {
  let masked = maskText(text);
  const replace = ({ offset, length }: Span, change: (written: string) => string): void => {
    const end = offset + length;
    masked = masked.slice(0, offset) + change(masked.slice(offset, end)) + masked.slice(end);
  };
  for (const [{ span }, { open }] of secretsOf(tree.root, [])) {
    replace(span, (written) => maskValue(written, open));
  }
  for (const part of unsound) {
    replace(part, (written) =>
      written.replace(WORD, (word, at: number) => {
        const isRest = at > 0 && IN_WORD.test(written[at - 1] ?? "");
        return !isRest && (OPEN_WORD.test(word) || isNetworkName(word)) ? word : stars(word);
      }),
    );
  }
  return masked;
}

/** A value or key, or a part of one, in a text that is not understood; as above not of any length. */
const WORD = /\$\{[A-Za-z_][A-Za-z0-9_]*\}|[^\s{}[\],"'#]{1,4096}/g;
const IN_WORD = /[^\s{}[\],"'#]/;
/** A key, a short word, a route, an amount, an address, or a URL without more than a host. */
const OPEN_WORD =
  /^(?:\$\{\w+\}|[\w.-]+:|.{1,5}|\/[\w/:*.-]*:?|\$?[0-9.]+[A-Za-z/]*|0x[0-9a-fA-F]{40}|https?:\/\/[\w.:-]+)$/;

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

/** The secrets in or below a value, each with what is known of its place. */
function secretsOf(located: Located, path: Path): readonly (readonly [Located, SecretPlace])[] {
  const place = SECRET_PLACES.find(
    (each) => (located.kind === "scalar" || each.isWhole === true) && endsWith(path, each.path),
  );
  if (place !== undefined) return [[located, place]];
  if (located.kind === "scalar") return [];
  const children =
    located.kind === "sequence"
      ? located.elements.map((each, index) => [index, each] as const)
      : [...located.entries].map(([key, { value }]) => [key, value] as const);
  // Three keys are as many as a place has.
  return children.flatMap(([step, child]) => secretsOf(child, [...path.slice(-2), step]));
}

function endsWith(path: Path, end: Path): boolean {
  const last = path.slice(-end.length);
  return last.length === end.length && end.every((step, at) => step === "*" || step === last[at]);
}
