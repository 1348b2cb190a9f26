/** `PAYMENT-REQUIRED` as text that is encoded before all of it is known. */
import { asciiJson, encodeAscii } from "../../x402/header.ts";
import type { ExtensionsV2 } from "../../x402/version-2.ts";

/** JSON of an object whose last member is one, without their ends: more may be said in that one. */
export function opened(value: object): string {
  const json = asciiJson(value).slice(0, -2);
  return json.endsWith("{") ? json : `${json},`;
}

/** Only whole groups of three bytes can be encoded before what follows is known. */
export function encodeOpen(json: string): string {
  return encodeAscii(json.padEnd(Math.ceil(json.length / 3) * 3));
}

/** Without schemas. */
export function bare(extensions: ExtensionsV2): ExtensionsV2 {
  return Object.fromEntries(
    Object.entries(extensions).map(([name, said]) => [name, { ...said, schema: undefined }]),
  );
}
