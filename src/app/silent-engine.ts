/** Stands in a decision where nothing is forwarded: a dry run, and a sidecar, whose proxy does that. */
import type { Engine } from "../gateway/upstream/upstream.ts";

/** No request is ever handed to it. */
export class SilentEngine implements Engine {
  refusal(): null {
    return null;
  }

  async forward(): Promise<never> {
    throw new Error("nothing is forwarded here");
  }

  async upgrade(): Promise<never> {
    throw new Error("nothing is forwarded here");
  }

  async close(): Promise<void> {}
}
