/** Who has signed a text of ours: of each kind of network by its own rule. */
import { findNetwork } from "../x402/network.ts";
import { decodeBase58 } from "../x402/solana-address.ts";
import { hasKeySigned } from "./evm/signed-text.ts";
import type { Observer, SignedText, TextSigners } from "./mechanism.ts";
import type { isSignedBy } from "./solana/signing.ts";

/** Of a signature on Solana. */
const SIGNATURE_BYTES = 64;

export class ChainTextSigners implements TextSigners {
  readonly #observers: ReadonlyMap<string, Pick<Observer, "hasCodeSigned">>;
  #isSignedBy: typeof isSignedBy | undefined;

  /**
   * @param observers by network: those chains whose code can be asked
   * @param onSolana loaded where anything is sold there; undefined: nobody has signed anything there
   */
  constructor(
    observers: ReadonlyMap<string, Pick<Observer, "hasCodeSigned">>,
    onSolana: typeof isSignedBy | undefined,
  ) {
    this.#observers = observers;
    this.#isSignedBy = onSolana;
  }

  /** Something is sold on Solana from now on. */
  learn(onSolana: typeof isSignedBy): void {
    this.#isSignedBy = onSolana;
  }

  hasKeySigned(network: string, text: SignedText): boolean {
    if (findNetwork(network)?.kind === "evm") return hasKeySigned(text);
    // Pages know base64 alone.
    const signature =
      decodeBase58(text.signature, SIGNATURE_BYTES) ?? Buffer.from(text.signature, "base64");
    const message = Buffer.from(text.message, "utf8");
    return this.#isSignedBy?.(message, signature, text.address) ?? false;
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
