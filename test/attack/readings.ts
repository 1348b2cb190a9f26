/**
 * How backends read a path. The gateway sends one spelling; what resource that names is the backend's to
 * say, and backends differ. Each reading here is that of software in the field, or looser. A reading is a
 * function of text, used alike for the path that arrived and for the patterns of the configuration, so
 * that two spellings are the same resource to a backend exactly when their readings are equal.
 */

export interface Reading {
  readonly name: string;
  /** Readings that every backend may have by the standards; the others are some backends'. */
  readonly isStandard: boolean;
  /**
   * It only takes a path apart (separators, dots, encodings). To such a reading a canonical path has nothing
   * left to do but to be decoded once.
   */
  readonly isStructural: boolean;
  /** Path of an origin-form target, without the query, as text of `/`-separated segments. */
  readonly read: (target: string) => string;
}

/** Path and query of the target, cut at the first raw `?`. */
const pathOf = (target: string): string => target.split("?", 1)[0] ?? "";

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const latin1 = new TextDecoder("latin1");

type Charset = (bytes: Uint8Array) => string;

const asUtf8: Charset = (bytes) => utf8.decode(bytes);
const asLatin1: Charset = (bytes) => latin1.decode(bytes);

/** Percent-decoding; whatever is no escape stays as it is. */
function decode(text: string, charset: Charset = asUtf8): string {
  return text.replaceAll(/(?:%[0-9a-f]{2})+/gi, (escapes) =>
    charset(Uint8Array.from(escapes.slice(1).split("%"), (digits) => Number.parseInt(digits, 16))),
  );
}

/** UTF-8 as old servers read it: overlong forms and surrogates mean what their bits say. */
const asOverlong: Charset = (bytes) => {
  let text = "";
  for (let index = 0; index < bytes.length; index += 1) {
    const lead = bytes[index] ?? 0;
    const more = lead < 0xc0 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf8 ? 3 : 4;
    const tail = bytes.subarray(index + 1, index + 1 + more);
    if (more === 0 || tail.length < more || tail.some((byte) => byte >> 6 !== 2)) {
      text += String.fromCharCode(lead);
      continue;
    }
    const code = tail.reduce((sum, byte) => sum * 64 + (byte & 63), lead & (0x7f >> more));
    text += code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
    index += more;
  }
  return text;
};

/** `%u0061`, as IIS and classic ASP read it. */
const decodeWide = (text: string): string =>
  text.replaceAll(/%u([0-9a-f]{4})/gi, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );

/** RFC 3986 section 5.2.4, with empty segments merged: `path.Clean` and nginx's `merge_slashes`. */
function clean(path: string): string {
  const kept: string[] = [];
  const segments = path.split("/");
  for (const segment of segments) {
    if (segment === "..") kept.pop();
    else if (segment !== "." && segment !== "") kept.push(segment);
  }
  const last = segments.at(-1);
  const slashed = kept.length > 0 && (last === "" || last === "." || last === "..");
  return `/${kept.join("/")}${slashed ? "/" : ""}`;
}

const bySegment = (path: string, read: (segment: string) => string): string =>
  path
    .split("/")
    .map((segment) => read(segment))
    .join("/");

const withoutParams = (path: string): string =>
  bySegment(path, (segment) => segment.split(";", 1)[0] ?? "");
const withoutSlash = (path: string): string => path.replace(/\/+$/, "") || "/";
const withoutBackslashes = (path: string): string => path.replaceAll("\\", "/");
const cutAt = (path: string, marks: RegExp): string => path.split(marks, 1)[0] ?? "";

/** RFC 3986 section 6.2.2: equivalent spellings become one. */
function normal(path: string): string {
  const unescaped = path.replaceAll(/%[0-9a-f]{2}/gi, (escape) => {
    const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
    return /[\w.~-]/.test(character) ? character : escape.toUpperCase();
  });
  return removeDots(unescaped);
}

/** RFC 3986 section 5.2.4 to the letter: empty segments count. */
function removeDots(path: string): string {
  const kept: string[] = [];
  const segments = path.split("/").slice(1);
  for (const [index, segment] of segments.entries()) {
    const isLast = index === segments.length - 1;
    if (segment === "..") kept.pop();
    else if (segment !== ".") kept.push(segment);
    if (isLast && (segment === "." || segment === "..")) kept.push("");
  }
  return `/${kept.join("/")}`;
}

/** NTFS: `name::$DATA` is `name`, dots and blanks at the end do not count, letter case neither. */
const asWindowsName = (segment: string): string =>
  segment
    .replace(/:[^:]*:\$[a-z_]+$/i, "")
    .replace(/[. ]+$/, "")
    .toUpperCase();

/** `Character.toLowerCase(Character.toUpperCase(c))`, one code point at a time, as in Java. */
const asJavaFolds = (text: string): string =>
  Array.from(text, (letter) => {
    const upper = letter.toUpperCase();
    const single = Array.from(upper).length === 1 ? upper : letter;
    return Array.from(single.toLowerCase())[0] ?? "";
  }).join("");

/** The Unicode collation algorithm at its primary level: MySQL's default compares names so. */
const asCollated = (segment: string): string =>
  segment
    .normalize("NFKD")
    .replaceAll(/[\p{M}\p{Cc}\p{Default_Ignorable_Code_Point}]/gu, "")
    .toUpperCase()
    .toLowerCase()
    .trimEnd()
    // It is a name that is looked up: what looks like a separator now is none.
    .replaceAll("/", "%2F");

/** `application/x-www-form-urlencoded`, where a path is no place for it (`urldecode` of PHP and its like). */
const asForm = (target: string): string => decode(pathOf(target).replaceAll("+", "%20"));

/** `int()` of Python, `Integer.parseInt` of Java: decimal digits of any script. */
const asNumeral = (text: string): string =>
  text.replaceAll(/\p{Nd}/gu, (digit) => {
    let zero = digit.codePointAt(0) ?? 0;
    const value = zero;
    while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero -= 1;
    return String((value - zero) % 10);
  });

/** Letters of the alphabets that the table and the attacks use; the collation says which are the same. */
const COLLATED =
  "abcdefghijklmnopqrstuvwxyz\u3042\u30a2\u30ac\u304b\u30cf\u03c3\u03c2\u00f8\u0142\u0111\u00f0\u0127";
const collator = new Intl.Collator("und", { sensitivity: "base" });

/** As ICU compares at the primary level: of letters that are equal, the first. */
const asSorted = (text: string): string =>
  Array.from(text, (letter) => {
    if (/[\0-\x7f]/.test(letter)) return letter.toLowerCase();
    if (collator.compare(letter, "ae") === 0) return "ae";
    if (collator.compare(letter, "oe") === 0) return "oe";
    const same = Array.from(COLLATED).find((each) => collator.compare(each, letter) === 0);
    return same ?? letter;
  }).join("");

/** Decoding until nothing changes, at most so often. */
const MOST_DECODINGS = 4;

function loosest(target: string): string {
  let path = cutAt(target, /[?#]/);
  for (let round = 0; round < MOST_DECODINGS; round += 1) {
    path = decodeWide(decode(path, round === 0 ? asOverlong : asUtf8)).normalize("NFKC");
  }
  path = cutAt(path.replaceAll("+", " "), /[\0\r\n?#]/);
  path = clean(withoutParams(withoutBackslashes(path)));
  const folded = bySegment(path, (segment) =>
    asJavaFolds(asNumeral(asSorted(asWindowsName(asCollated(segment.trimStart()))))),
  );
  return withoutSlash(clean(folded));
}

/**
 * Some of all that any program does, chosen by the bits of `choice`: whatever a path goes through on its way
 * into a backend, in the order in which programs do it.
 */
export function composed(choice: number): Reading {
  const steps = STEPS.filter((_, index) => ((choice >> index) & 1) === 1);
  return {
    name: steps.map(([name]) => name).join(", then ") || "decoded",
    isStandard: false,
    isStructural: false,
    read: (target) => steps.reduce((path, [, step]) => step(path), decode(pathOf(target))),
  };
}

const named = (path: string, read: (segment: string) => string): string =>
  // It is a name by now: what looks like a separator is none any more.
  bySegment(path, (segment) => read(segment).replaceAll("/", "%2F"));

const UNSEEN = /[\p{M}\p{Default_Ignorable_Code_Point}]/gu;

const STEPS: readonly (readonly [name: string, step: (path: string) => string])[] = [
  ["form", (path) => path.replaceAll("+", " ")],
  ["NFKC", (path) => path.normalize("NFKC")],
  ["decoded again", decode],
  ["cut at ? and #", (path) => cutAt(path, /[?#]/)],
  ["backslashes are slashes", withoutBackslashes],
  ["without parameters", withoutParams],
  ["cleaned", clean],
  [
    "without accents",
    (path) => named(path, (name) => name.normalize("NFD").replaceAll(UNSEEN, "")),
  ],
  ["trimmed", (path) => named(path, (name) => name.trim())],
  ["cleaned", clean],
  ["names of Windows", (path) => bySegment(path, asWindowsName)],
  ["cleaned", clean],
  ["lower case", (path) => path.toLowerCase()],
  ["upper case", (path) => path.toUpperCase()],
  ["Java's case", asJavaFolds],
  ["collated", (path) => named(path, asCollated)],
  ["sorted", asSorted],
  ["numerals", asNumeral],
  ["the last slash does not count", withoutSlash],
];

/** Of {@link composed}. */
export const CHOICES = 2 ** STEPS.length;

/** `new URL(target, base)`, as Node.js and Deno programs do: a target of `//host/path` loses its host. */
function whatwg(target: string): string {
  try {
    return decode(new URL(target, "http://backend").pathname);
  } catch {
    return pathOf(target);
  }
}

const standard = (name: string, read: Reading["read"]): Reading => ({
  name,
  isStandard: true,
  isStructural: true,
  read,
});
/** Of some backends, about the structure of a path. */
const loose = (name: string, read: Reading["read"]): Reading => ({
  name,
  isStandard: false,
  isStructural: true,
  read,
});
/** Of some backends, about which names are the same. */
const folding = (name: string, read: Reading["read"]): Reading => ({
  name,
  isStandard: false,
  isStructural: false,
  read,
});

export const READINGS: readonly Reading[] = [
  standard("byte by byte", pathOf),
  standard("RFC 3986 normal form", (target) => normal(pathOf(target))),
  standard("split, then decoded (Express, Rails, Spring)", (target) =>
    bySegment(pathOf(target), (segment) => decode(segment).replaceAll("/", "%2F")),
  ),
  standard("decoded, then split and cleaned (nginx, Go)", (target) =>
    clean(decode(pathOf(target))),
  ),
  loose("WHATWG URL (Node.js, Deno)", whatwg),
  loose("servlet path: parameters off, then decoded (Tomcat, Jetty)", (target) =>
    clean(withoutBackslashes(decode(withoutParams(pathOf(target))))),
  ),
  loose("decoded, then parameters off (Jetty before 9, WebLogic)", (target) =>
    clean(withoutParams(withoutBackslashes(decode(pathOf(target))))),
  ),
  loose("decoded twice (a framework behind a server)", (target) =>
    clean(withoutBackslashes(decode(decode(pathOf(target))))),
  ),
  loose("cut at NUL and at line ends (C strings, CGI)", (target) =>
    clean(cutAt(decode(pathOf(target)), /[\0\r\n]/)),
  ),
  loose("overlong UTF-8 and %u (old IIS, old Tomcat)", (target) =>
    clean(withoutBackslashes(decode(decodeWide(pathOf(target)), asOverlong))),
  ),
  folding("Latin-1 (old Tomcat, PHP)", (target) => clean(decode(pathOf(target), asLatin1))),
  folding("decoded before the query and fragment are split off", (target) =>
    clean(cutAt(decode(target), /[?#]/)),
  ),
  folding("letter case and last slash do not count (Express, ASP.NET)", (target) =>
    withoutSlash(bySegment(pathOf(target), (segment) => decode(segment).toLowerCase())),
  ),
  folding("letter case, one character at a time (Spring, Java)", (target) =>
    asJavaFolds(withoutSlash(clean(decode(pathOf(target))))),
  ),
  folding("file names of Windows (IIS, static files)", (target) =>
    withoutSlash(
      clean(bySegment(clean(withoutBackslashes(decode(pathOf(target)))), asWindowsName)),
    ),
  ),
  folding("Unicode compatibility forms (NFKC, best fit of Windows)", (target) =>
    withoutSlash(
      clean(
        withoutParams(withoutBackslashes(cutAt(decode(pathOf(target)).normalize("NFKC"), /[?#]/))),
      ).toLowerCase(),
    ),
  ),
  folding("names looked up in a database (MySQL's collations)", (target) =>
    withoutSlash(bySegment(pathOf(target), (segment) => asCollated(decode(segment)))),
  ),
  folding("decoded as a form", asForm),
  folding("numerals of any script (Python, Java)", (target) => asNumeral(decode(pathOf(target)))),
  folding("letters as they are sorted (ICU)", (target) => asSorted(decode(pathOf(target)))),
  folding("all of them at once", loosest),
];
