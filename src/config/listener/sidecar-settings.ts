/** What `sidecar` means once it is read: where another proxy asks what may pass. */
import type { ListenAddress } from "./listener-settings.ts";
import type { AddressRange } from "./listener-settings.ts";

/** What every route leads to where another proxy forwards the requests. */
export const PROXY_UPSTREAM = "proxy";

/** Proxies that can ask before they pass a request on. */
export const SIDECAR_PROXIES = ["nginx", "haproxy", "caddy", "traefik", "envoy"] as const;

/** When a payment counts as delivered: see `sidecar.delivery`. */
export const SIDECAR_DELIVERIES = ["once", "repeatable", "reported"] as const;

export interface SidecarSettings {
  readonly listen: ListenAddress;
  /** Which proxy asks, and so in which lines, and in which steps. */
  readonly proxy: (typeof SIDECAR_PROXIES)[number];
  /** Who may ask. */
  readonly peers: readonly AddressRange[];
  readonly delivery: (typeof SIDECAR_DELIVERIES)[number];
  /** Longest wait for a report, where there are any. */
  readonly reportWithinMs: number;
}
