import { systemTime, type Time } from "../../../src/time/time.ts";

/** Pauses that end when the test says so. */
export class SteppedTime implements Time {
  readonly now = (): number => Date.now();
  readonly #sleeping: { readonly ms: number; readonly wake: () => void }[] = [];

  timeout(ms: number): AbortSignal {
    return systemTime.timeout(ms);
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#sleeping.push({ ms, wake: resolve });
    signal?.addEventListener("abort", () => resolve());
    return signal?.aborted ? undefined : promise;
  }

  get pauses(): readonly number[] {
    return this.#sleeping.map(({ ms }) => ms).sort((left, right) => left - right);
  }

  wakeAll(): void {
    for (const { wake } of this.#sleeping.splice(0)) wake();
  }
}
