/**
 * Who may call the facilitator's endpoints: whoever shows one of the tokens as `Authorization: Bearer …` (RFC 6750),
 * or everybody where there is none. Some tokens are those of a gateway that is known by name.
 */
import { createHash, timingSafeEqual } from "node:crypto";

export interface Caller {
  /** Null: it has a token that several may share, or there is none. */
  readonly gateway: string | null;
}

export interface CallerToken extends Caller {
  /** A secret. */
  readonly bearer: string;
}

/** Somebody who shows no token where none is needed. */
export const ANYBODY: Caller = { gateway: null };
/** The scheme's name has no letter case (RFC 9110 section 11.1); the token has. */
const SCHEME = /^bearer(?= )/i;

export class Callers {
  #known: readonly { readonly hash: Buffer; readonly caller: Caller }[] = [];

  /** `tokens`: all different; none: everybody may call. */
  constructor(tokens: readonly CallerToken[]) {
    this.know(tokens);
  }

  /** From here on these are let in, and no others. */
  know(tokens: readonly CallerToken[]): void {
    this.#known = tokens.map(({ gateway, bearer }) => {
      return { hash: sha256(`Bearer ${bearer}`), caller: { gateway } };
    });
  }

  /** @param authorization the header's value; undefined is answered where the caller is not let in */
  identify(authorization: string | undefined): Caller | undefined {
    if (this.#known.length === 0) return ANYBODY;
    const shown = sha256(authorization?.replace(SCHEME, "Bearer") ?? "");
    let found: Caller | undefined;
    // All of them each time: how long it takes says nothing about which one it was.
    for (const { hash, caller } of this.#known) {
      if (timingSafeEqual(shown, hash)) found = caller;
    }
    return found;
  }
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
