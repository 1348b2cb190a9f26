/** Texts of strangers as they are shown: in a terminal, a log, a page. */

/** Control and direction characters become a visible stand-in, one for one; tabs stay. */
export function printable(text: string): string {
  return text.replace(/(?!\t)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, "\ufffd");
}
