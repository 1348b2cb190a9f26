/**
 * What backends may make of a canonical path. The gateway's grammar leaves one spelling of each path;
 * two things it cannot leave to nobody: which names a backend takes for one and the same, and what it makes of
 * characters that are delimiters to some programs only.
 *
 * Both are described by what they do, not by lists of spellings. Names are compared by {@link foldName}, which
 * takes away at once all that some backend does not count. What changes the structure of a path is a chain of
 * steps; a program does some of them and leaves out the others, so that {@link readingsOf} gives the path as it
 * is after each choice of steps that makes a difference. Almost every path has one reading only. It is here so
 * that the configuration is judged by the very rule by which the gateway matches.
 */

/** Null stands for any one segment: `:param` of a pattern. */
export type Segment = string | null;

export interface Reading {
  /** Decoded. Without the empty one behind a slash at the end. */
  readonly segments: readonly Segment[];
  readonly isSlashed: boolean;
  /** The rest was taken for a query or a fragment. */
  readonly isCut: boolean;
}

/** Readings of a path at most, before its gaps; what has more was made to have them. */
const MAX_READINGS = 16;
/** Segments at most that one reading has and the plain one has not. */
const MAX_DIVISIONS = 16;

/**
 * Every reading of these decoded segments, the plain one first; null when there are too many.
 *
 * A segment whose folded name is empty is none to some, and perhaps the way up: with two of them there is no
 * telling which program sees what.
 */
export function readingsOf(
  segments: readonly Segment[],
  isSlashed: boolean,
): readonly Reading[] | null {
  const readings: Reading[] = [{ segments, isSlashed, isCut: false }];
  if (!segments.some(isOdd)) return readings;
  for (const step of STEPS) {
    for (const reading of readings.slice()) {
      const changed = step(reading);
      if (changed === null) continue;
      if (changed.segments.length > segments.length + MAX_DIVISIONS) return null;
      readings.push(changed);
    }
    if (readings.length > MAX_READINGS) return null;
  }
  for (const reading of readings.slice()) {
    const [gap, second] = gapsOf(reading);
    if (second !== undefined) return null;
    if (gap === undefined) continue;
    readings.push(without(reading, gap, 1));
    if (isWayUp(reading.segments[gap] ?? "")) readings.push(without(reading, gap, 2));
  }
  return readings;
}

/**
 * What is the same in two names that some backend takes for one: without letter case (there and back again, as
 * one letter may become two), compatibility forms, accents, what is not seen, and the script of digits and of
 * kana; without blanks around it, and without the dots and the name of a stream at its end, which Windows does
 * not count. A `+` is a blank to whoever decodes a path as if it were a form.
 *
 * Empty: some backend sees no name there at all.
 */
export function foldName(name: string): string {
  const text = (isAscii(name) ? name.toLowerCase() : foldText(name)).replaceAll("+", " ");
  const stream = /:[^:]*:\$[a-z_]+$/.exec(text.slice(0, countedEnd(text)));
  const counted = text.slice(0, countedEnd(text, stream?.index));
  return counted.trimStart();
}

/** Where the blanks and dots at the end of a text begin. No regular expression: that would be quadratic. */
function countedEnd(text: string, from = text.length): number {
  let end = from;
  while (end > 0 && UNCOUNTED.test(text[end - 1] ?? "")) end -= 1;
  return end;
}

const UNCOUNTED = /[\s.]/;
const UNSEEN = /[\p{M}\p{Default_Ignorable_Code_Point}]/gu;
/** Letters that are folded one by one, and digits that are not ASCII. */
const FOLDED_LETTERS = /[æœøđðħłıςァ-ヶ]|(?![0-9])\p{Nd}/gu;

/** The iota below a Greek vowel is an accent to some, a letter of its own in upper case. */
function foldText(name: string): string {
  return name
    .replaceAll("\u037a", " ")
    .replaceAll("\u0345", "")
    .toLowerCase()
    .toUpperCase()
    .toLowerCase()
    .normalize("NFKD")
    .replaceAll(UNSEEN, "")
    .toLowerCase()
    .replaceAll(FOLDED_LETTERS, foldLetter)
    .replaceAll(/(?<=[αηω])ι/g, "");
}

/** Letters with a stroke, and joined ones: Unicode does not decompose them, collations do. */
const LETTERS: Readonly<Record<string, string>> = {
  æ: "ae",
  œ: "oe",
  ø: "o",
  đ: "d",
  ð: "d",
  ħ: "h",
  ł: "l",
  ı: "i",
  ς: "σ",
};
/** From a katakana to its hiragana. */
const KANA_DISTANCE = 0x60;
const DIGITS_OF_A_SCRIPT = 10;

function foldLetter(letter: string): string {
  const code = letter.codePointAt(0) ?? 0;
  if (/\p{Nd}/u.test(letter)) return String(digitOf(code));
  return LETTERS[letter] ?? String.fromCodePoint(code - KANA_DISTANCE);
}

/** Decimal digits come in runs of ten, 0 first (Unicode, section 4.6). */
function digitOf(code: number): number {
  let first = code;
  while (/\p{Nd}/u.test(String.fromCodePoint(first - 1))) first -= 1;
  return (code - first) % DIGITS_OF_A_SCRIPT;
}

function isAscii(text: string): boolean {
  return !/[^\0-\x7f]/.test(text);
}

/** What a program that knows them as such takes for structure. */
const DELIMITERS = /[/\\;?#%]/;

/** Whether any step below might change a path that holds this segment in the middle or at its end. */
function isOdd(segment: Segment): boolean {
  if (segment === null || segment === "") return false;
  const isCut = segment.includes("?") || segment.includes("#");
  if (isCut || foldName(segment) === "") return true;
  return !isAscii(segment) && DELIMITERS.test(segment.normalize("NFKC"));
}

/** Null where it changes nothing. */
type Step = (reading: Reading) => Reading | null;

/** In the order in which programs do them. */
const STEPS: readonly Step[] = [
  compose,
  decodeAgain,
  cut,
  (reading) => divide(reading, "/"),
  (reading) => divide(reading, "\\"),
  (reading) => rename(reading, (text) => text.split(";", 1)[0] ?? ""),
];

function rename(reading: Reading, change: (text: string) => string): Reading | null {
  const segments = reading.segments.map((segment) => segment && change(segment));
  const isSame = segments.every((segment, index) => segment === reading.segments[index]);
  return isSame ? null : { ...reading, segments };
}

/** Compatibility forms, as far as there are delimiters in them: otherwise only the names are others. */
function compose(reading: Reading): Reading | null {
  return rename(reading, (text) => {
    const normal = isAscii(text) ? text : text.normalize("NFKC");
    return DELIMITERS.test(normal) ? normal : text;
  });
}

/** Escapes that the step before has made. */
function decodeAgain(reading: Reading): Reading | null {
  return rename(reading, (text) =>
    text.replaceAll(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
      try {
        return decodeURIComponent(escapes);
      } catch {
        return escapes;
      }
    }),
  );
}

/** Decoded before the query and the fragment are split off. */
function cut({ segments }: Reading): Reading | null {
  const index = segments.findIndex((segment) => segment !== null && /[?#]/.test(segment));
  if (index === -1) return null;
  const [name = ""] = segments[index]?.split(/[?#]/, 1) ?? [];
  const kept = segments.slice(0, index);
  const isSlashed = name === "";
  return { segments: isSlashed ? kept : [...kept, name], isSlashed, isCut: true };
}

function divide(reading: Reading, delimiter: string): Reading | null {
  const segments = reading.segments.flatMap((text) =>
    text === null ? null : text.split(delimiter),
  );
  if (segments.length === reading.segments.length) return null;
  const isSlashed = reading.isSlashed || segments.at(-1) === "";
  return {
    ...reading,
    segments: isSlashed && !reading.isSlashed ? segments.slice(0, -1) : segments,
    isSlashed,
  };
}

/** Where there is no name to some. */
function gapsOf({ segments }: Reading): number[] {
  return segments.flatMap((text, index) => (text !== null && foldName(text) === "" ? index : []));
}

/** Two dots, to somebody. */
function isWayUp(segment: string): boolean {
  const seen = isAscii(segment) ? segment : segment.normalize("NFKD").replaceAll(UNSEEN, "");
  return seen.trim() === "..";
}

/** Without the segment at `index`, and with `count` 2 without the one before it; what is last leaves its slash. */
function without(reading: Reading, index: number, count: 1 | 2): Reading {
  const segments = reading.segments.toSpliced(
    Math.max(0, index + 1 - count),
    Math.min(count, index + 1),
  );
  const isLast = index === reading.segments.length - 1;
  return { ...reading, segments, isSlashed: reading.isSlashed || isLast || segments.length === 0 };
}
