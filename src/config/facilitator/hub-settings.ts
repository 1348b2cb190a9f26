/** What a configuration says of other gateways that settle through us, as `settings.ts` has it. */
import type { Secret } from "./secret.ts";

/** A gateway that settles through us under a token of its own. */
export interface CallingGateway {
  readonly name: string;
  /** Another one than that of every other caller. */
  readonly bearer: Secret;
  /**
   * What it sells under these URLs is listed: absolute http(s) URLs in canonical form without query, fragment or
   * trailing slash, none of which is under one of another gateway, or of ours. Empty: nothing of it is listed.
   */
  readonly urls: readonly string[];
}

/** How the sales of other gateways are listed. */
export interface CatalogueSettings {
  /** What has not been sold for so long is listed no more. */
  readonly expiresMs: number;
  /** Resources of each gateway: the one that was sold longest ago makes room. */
  readonly maxResources: number;
  /** Whether the listing on the facilitator's listener is open to everybody. */
  readonly isPublic: boolean;
}
