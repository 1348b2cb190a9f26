/**
 * Letters of other scripts that look like Latin ones: they come with text that is copied from a page or typed with
 * another keyboard, and nobody sees why a name is not the one that is meant.
 */
const PAIRS =
  "АA ВB ЕE ЅS ІI ЈJ КK МM НH ОO РP СC ТT ХX УY аa еe ѕs іi јj оo рp сc ԁd һh хx уy ԛq ԝw " +
  "ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX οo νv αa ρp ιi κk τt υu ıi ‐- ‑- ‒- –- —- −- ⁄/ ∕/ ∶:";

const LATIN: ReadonlyMap<string, string> = new Map(
  PAIRS.split(" ").map((pair) => [pair.charAt(0), pair.charAt(1)]),
);

const SCRIPTS = [
  ["a Cyrillic letter", /\p{Script=Cyrillic}/u],
  ["a Greek letter", /\p{Script=Greek}/u],
] as const;

/** The text with Latin letters, as far as its own look like them; full-width forms are, too. */
export function latinOf(text: string): string {
  return text.normalize("NFKC").replace(/[^\x20-\x7e]/gu, (letter) => LATIN.get(letter) ?? letter);
}

/** Which letter of a text is not what it seems; undefined: there is none, or it is one of many of its own script. */
export function lookAlike(text: string): string | undefined {
  if (!/[^\x20-\x7e]/.test(text) || !/^[\x20-\x7e]*$/.test(latinOf(text))) return undefined;
  const letter = /[^\x20-\x7e]/u.exec(text)?.[0] ?? "";
  const what = SCRIPTS.find(([, script]) => script.test(letter))?.[0] ?? "another character";
  const code = (letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `its ${letter} is ${what} (U+${code}) that looks like ${latinOf(letter)}`;
}
