/**
 * The node mines each transaction as it comes, and now and then forgets one that came beside another (foundry issue
 * 10122): it is mined with whatever comes next. No chain does that to so few, so here it is told to mine such ones.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Chain } from "../support/chain.ts";

/** Longer than it takes to mine what is not forgotten, milliseconds. */
const LOOK_MS = 50;

/** Until it is disposed of. */
export function mineLeft(chain: Pick<Chain, "rpc">): AsyncDisposable {
  const over = new AbortController();
  const { signal } = over;
  const done = (async () => {
    let wasLeft = false;
    while (!signal.aborted) {
      const { pending } = (await chain.rpc("txpool_status")) as { readonly pending: string };
      const isLeft = BigInt(pending) > 0n;
      if (isLeft && wasLeft) await chain.rpc("evm_mine");
      wasLeft = isLeft;
      await pause(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      over.abort();
      await done;
    },
  };
}
