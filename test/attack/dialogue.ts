/** What a client does on one connection, and what comes of it. */

export type Step =
  /** Bytes as Latin-1 text. */
  | { readonly kind: "send"; readonly bytes: string }
  | { readonly kind: "pause"; readonly ms: number }
  /** Waits until so much of an answer has arrived, or the connection is over. */
  | { readonly kind: "until"; readonly text: string }
  /** Sends these bytes again and again with a pause between, until the connection is over. */
  | { readonly kind: "drip"; readonly bytes: string; readonly everyMs: number }
  /** Half-closes: no more will be sent. */
  | { readonly kind: "end" }
  | { readonly kind: "reset" };

export interface Answer {
  readonly status: number;
  /** Raw `name, value` pairs. */
  readonly lines: readonly (readonly [string, string])[];
  readonly body: string;
}

export interface Dialogue {
  readonly received: string;
  /** Complete answers, without interim ones. */
  readonly answers: readonly Answer[];
  readonly interim: number;
  /** Why the bytes are not a sequence of answers; undefined when they are. */
  readonly fault: string | undefined;
  readonly isClosed: boolean;
}

/** The fault of an answer that ends before it is complete. */
export const CUT_OFF = "an answer that is cut off";

/** For a person. */
export function tellStep(step: Step): string {
  switch (step.kind) {
    case "send":
      return step.bytes;
    case "drip":
      return `<${step.bytes} every ${step.everyMs} ms>`;
    case "pause":
      return `<pause ${step.ms} ms>`;
    case "until":
      return `<until ${step.text}>`;
    default:
      return `<${step.kind}>`;
  }
}
