/**
 * Pots in a worker: each question goes to the process that keeps the ledger, where the worker has a life of its own. It
 * asks a few times a second for all that it spends, and not for each request.
 */
import type { PotBalance, PotDraw, PotDrawn, Pots } from "../ledger/ledger.ts";
import type { Channel } from "./channel.ts";
import { ChannelFault } from "./fault.ts";

/** How long the ledger may take to answer, the way there and back included, milliseconds. */
const LEDGER_MS = 10_000;

export class RemotePots implements Pots {
  readonly #channel: Pick<Channel, "call">;

  constructor(channel: Pick<Channel, "call">) {
    this.#channel = channel;
  }

  async draw(draws: readonly PotDraw[]): Promise<readonly PotDrawn[]> {
    const answer = await this.#ask("draw", [draws]);
    if (!Array.isArray(answer) || answer.length !== draws.length) throw unreadable();
    return draws.map(({ pot }, place) => readDrawn(answer[place], pot));
  }

  async balances(pots: readonly string[]): Promise<ReadonlyMap<string, PotBalance>> {
    const answer = await this.#ask("balances", [pots]);
    if (!(answer instanceof Map)) throw unreadable();
    const names = pots.filter((name) => answer.has(name));
    return new Map(names.map((name) => [name, readBalance(answer.get(name))]));
  }

  #ask(name: string, values: readonly unknown[]): Promise<unknown> {
    return this.#channel.call(name, values, { withinMs: LEDGER_MS });
  }
}

/** Of that pot: another's would be spent in its place. */
function readDrawn(value: unknown, asked: string): PotDrawn {
  const { pot, held, whole, isWanted, isOver } = Object(value);
  const isRight = pot === asked && isAmount(held) && isAmount(whole);
  if (!isRight || typeof isWanted !== "boolean" || typeof isOver !== "boolean") throw unreadable();
  return { pot, held, whole, isWanted, isOver };
}

function readBalance(value: unknown): PotBalance {
  const { free, leased, untilMs } = Object(value);
  if (!isAmount(free) || !isAmount(leased)) throw unreadable();
  if (untilMs !== null && typeof untilMs !== "number") throw unreadable();
  return { free, leased, untilMs };
}

function isAmount(value: unknown): value is bigint {
  return typeof value === "bigint" && value >= 0n;
}

function unreadable(): ChannelFault {
  return new ChannelFault("unreadable", "the process with the money said something else");
}
