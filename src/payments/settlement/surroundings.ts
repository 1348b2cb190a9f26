/** What stands around whoever watches over transactions, and whoever signs them. */
import type { Settlements } from "../../ledger/ledger.ts";
import type { Follower, Mechanism } from "../../mechanism/mechanism.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import type { ForeignRule } from "../facilitator.ts";
import type { NetworkGate } from "./network-gate.ts";
/** What a watch does its work with; the same for all of a sender. */
export interface WatchSurroundings {
  readonly mechanism: Follower;
  readonly ledger: Settlements;
  readonly gate: Pick<NetworkGate, "isTrusted">;
  readonly telemetry: Telemetry;
  readonly time: Time;
  /** Default: such payments are held. */
  readonly foreign?: ForeignRule | undefined;
  /** Symbol and decimals of a token that the mechanism accepts, for logs and metrics. */
  readonly describeAsset: (
    network: string,
    asset: string,
  ) => { readonly symbol: string; readonly decimals: number };
  /** What a whole unit of a network's own currency is worth, attodollars; null: nobody says. Default: null. */
  readonly nativePrice?: ((network: string) => bigint | null) | undefined;
}

/** The same where the keys are: what a sender signs with, too. */
export interface SenderSurroundings extends WatchSurroundings {
  readonly mechanism: Mechanism;
  readonly gate: Pick<NetworkGate, "isOpen" | "isTrusted">;
}
