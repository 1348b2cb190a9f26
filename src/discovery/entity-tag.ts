/** Entity tags: whoever has read a document asks again at the cost of a few bytes (RFC 9110 section 8.8.3). */
import { createHash } from "node:crypto";

/** Characters of the hash that are kept: 144 bits. */
const TAG_LENGTH = 24;
/** Longest `If-None-Match` that is read, characters; behind a longer one the document is sent. */
const MAX_FIELD_LENGTH = 2_048;

/** A strong tag of these very bytes. */
export function entityTag(body: string): string {
  const hash = createHash("sha256").update(body).digest("base64url");
  return `"${hash.slice(0, TAG_LENGTH)}"`;
}

/** Whether `If-None-Match` names the tag, compared weakly as that field is (RFC 9110 section 13.1.2). */
export function namesTag(field: string | undefined, tag: string): boolean {
  if (field === undefined || field.length > MAX_FIELD_LENGTH) return false;
  if (field.trim() === "*") return true;
  return field.split(",").some((each) => each.trim().replace(/^W\//, "") === tag);
}
