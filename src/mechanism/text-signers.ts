/** Who has signed a text of ours: of each kind of network by its own rule. */
import { findNetwork } from "../x402/network.ts";
import { decodeBase58 } from "../x402/solana-address.ts";
import { hasKeySigned } from "./evm/signed-text.ts";
import type { Observer, SignedText, TextSigners } from "./mechanism.ts";
import { isSignedBy } from "./solana/signing.ts";
import { SIGNATURE_BYTES } from "./solana/strict-signature.ts";

export class ChainTextSigners implements TextSigners {
  readonly #observers: ReadonlyMap<string, Pick<Observer, "hasCodeSigned">>;

  /** @param observers by network: those chains whose code can be asked */
  constructor(observers: ReadonlyMap<string, Pick<Observer, "hasCodeSigned">>) {
    this.#observers = observers;
  }

  hasKeySigned(network: string, text: SignedText): boolean {
    if (findNetwork(network)?.kind === "evm") return hasKeySigned(text);
    // Pages know base64 alone.
    const signature =
      decodeBase58(text.signature, SIGNATURE_BYTES) ?? Buffer.from(text.signature, "base64");
    return isSignedBy(Buffer.from(text.message, "utf8"), signature, text.address);
  }

  async hasCodeSigned(
    network: string,
    text: SignedText,
    signal: AbortSignal,
    asker: string,
  ): Promise<boolean> {
    const observer = this.#observers.get(network);
    return (await observer?.hasCodeSigned?.(text, signal, asker)) ?? false;
  }
}
