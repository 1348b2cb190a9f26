/** Where the seller can be asked: what is written is a mail address or the URL of a page, and is shown as a link. */
import { ok } from "../../x402/result.ts";
import { bad } from "../reading/reading.ts";
import { matching, text } from "../reading/shapes.ts";

/** As long as a mail address can be; it stands in the head of answers. */
const MAX_LENGTH = 254;

const MAIL = /^[^\s@/:?#<>"]+@[^\s@/:?#<>"]+$/;
const WANTED = "must be an email address or the URL of a page";

/** As it is written. */
export const contact = text(
  (written) => {
    const link = contactLink(written);
    if (link === undefined) return bad(WANTED);
    return link.length <= MAX_LENGTH
      ? ok(written)
      : bad("is too long to stand in an answer's head", "write a shorter one");
  },
  matching(
    /^(?:[^\s@/:?#<>"]+@[^\s@/:?#<>"]+|https?:\/\/[^\s@]+)$/,
    WANTED,
    "api@example.com",
    "https://example.com/contact",
  ),
);

/** Printable ASCII without quotes and angle brackets, whatever was written. */
export function contactLink(written: string): string | undefined {
  if (MAIL.test(written)) return new URL(`mailto:${written}`).href;
  return /^https?:\/\/[^\s@]+$/.test(written) ? URL.parse(written)?.href : undefined;
}
