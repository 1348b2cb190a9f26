/**
 * Deadlines of switched connections: nobody looks into them any more, so only these end one whose client and
 * backend have forgotten it. One payment buys one tunnel, and for no longer than its longest life.
 */
import type { Socket } from "node:net";
import type { Bagged } from "../message/bag.ts";
import { notesOf } from "../message/inbound.ts";
import { Sweep, systemSweep, type SweepOptions } from "../message/sweep.ts";

export interface TunnelLimits {
  /** Longest silence in both directions, milliseconds. */
  readonly tunnelIdleMs: number;
  /** Longest life, milliseconds. */
  readonly tunnelLifeMs: number;
}

/** Silence after which the system asks whether the other side is still there, milliseconds. */
const PROBE_AFTER_MS = 60_000;

interface Activity extends Bagged {
  readonly client: Socket;
  readonly openedAtMs: number;
  movedAtMs: number;
  movedBytes: number;
}

/** Its connection has switched, and its backend is there. */
export function isTunnel(client: Socket): boolean {
  return notesOf(client).isTunnel;
}

export class Tunnels {
  readonly #limits: TunnelLimits;
  readonly #sweep: Sweep<Activity>;
  readonly #activities = new WeakMap<Socket, Activity>();

  constructor(limits: TunnelLimits, options: SweepOptions = systemSweep) {
    this.#limits = limits;
    this.#sweep = new Sweep((activity, now) => this.#look(activity, now), options);
  }

  /** Both sides have switched; the client's socket is destroyed when it is time. */
  open(client: Socket, backend: Socket): void {
    // A client whose machine is gone is noticed long before its tunnel has been idle for too long.
    client.setKeepAlive(true, PROBE_AFTER_MS);
    backend.setKeepAlive(true, PROBE_AFTER_MS);
    const now = this.#sweep.now;
    const movedBytes = movedBy(client);
    const activity = { client, openedAtMs: now, movedAtMs: now, movedBytes, at: -1 };
    this.#sweep.add(activity);
    this.#activities.set(client, activity);
    const notes = notesOf(client);
    notes.isTunnel = true;
    backend.once("close", () => {
      notes.isTunnel = false;
    });
    client.once("close", () => {
      this.#sweep.delete(activity);
      this.#activities.delete(client);
    });
  }

  /** Since something moved, milliseconds; undefined: it is none of these. */
  silentMs(client: Socket): number | undefined {
    const activity = this.#activities.get(client);
    if (activity === undefined) return undefined;
    return movedBy(client) === activity.movedBytes ? this.#sweep.now - activity.movedAtMs : 0;
  }

  #look(activity: Activity, nowMs: number): boolean {
    const { client } = activity;
    if (client.destroyed) return false;
    const moved = movedBy(client);
    if (moved !== activity.movedBytes) {
      activity.movedBytes = moved;
      activity.movedAtMs = nowMs;
    }
    const { tunnelIdleMs, tunnelLifeMs } = this.#limits;
    const isIdle = nowMs - activity.movedAtMs >= tunnelIdleMs;
    if (!isIdle && nowMs - activity.openedAtMs < tunnelLifeMs) return true;
    client.destroy();
    return false;
  }
}

/** What goes through a tunnel goes through the client's socket, in either direction. */
function movedBy({ bytesRead, bytesWritten }: Socket): number {
  return bytesRead + bytesWritten;
}
