/** The first answer of a process that was just started. */
import type { ChildProcess } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";

/** Between two questions, milliseconds: nothing tells from outside that a listener is open. */
const STEP_MS = 25;

export interface Wanted {
  readonly url: string;
  /** Other answers are not waited for. Default: any. */
  readonly status?: number;
  /** Milliseconds. */
  readonly withinMs: number;
}

/** Asks until the child answers so. @throws when it has ended or the time has passed, with what it `said` */
export async function untilAnswer(
  child: ChildProcess,
  { url, status, withinMs }: Wanted,
  said: () => string = () => "",
): Promise<Response> {
  const deadline = AbortSignal.timeout(withinMs);
  while (child.exitCode === null && !deadline.aborted) {
    const answer = await fetch(url).catch(() => undefined);
    if (answer !== undefined && answer.status === (status ?? answer.status)) return answer;
    await answer?.body?.cancel();
    await pause(STEP_MS);
  }
  throw new Error(`${url} never answered ${status ?? "anything"}: ${said()}`);
}
