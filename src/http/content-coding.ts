/** How an answer is written for its client: RFC 9110 section 12.5.3. */

/** What we write, the one that is shortest first. */
const CODINGS = ["br", "gzip"] as const;

export type ContentCoding = (typeof CODINGS)[number];

/** Longest `Accept-Encoding` that is read, characters. */
const MAX_FIELD_LENGTH = 512;
/** A member of Accept-Encoding; `q` may stand in front of nothing else. */
const MEMBER = /^\s*([\w*-]+)\s*(?:;\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*)?$/i;

/** The best of those that the client accepts; null: it wants the text as it is. */
export function codingFor(
  accepted: string | undefined,
  offered: readonly ContentCoding[] = CODINGS,
): ContentCoding | null {
  if (accepted === undefined || accepted.length > MAX_FIELD_LENGTH) return null;
  const qualities = new Map<string, number>();
  for (const member of accepted.split(",")) {
    const [, name, quality = "1"] = MEMBER.exec(member) ?? [];
    if (name !== undefined) qualities.set(name.toLowerCase(), Number(quality));
  }
  const any = qualities.get("*") ?? 0;
  const liked = (coding: ContentCoding): number => qualities.get(coding) ?? any;
  const [best] = offered.toSorted((one, other) => liked(other) - liked(one));
  return best !== undefined && liked(best) > 0 ? best : null;
}
