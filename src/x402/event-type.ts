/**
 * What others can be told of as it happens (webhooks).
 *
 * - `payment.sold`: a route's price was paid. `payment.undelivered`: an attempt to deliver it has failed.
 * - `payment.refunded`: it was paid back, by us or by other means, as the operator says.
 * - `payment.held`: paid in a transaction that is not ours; it waits for the operator.
 * - `network.closed`, `network.opened`: payments on a network are not taken any more, or again.
 * - `wallet.low`: an account of ours can pay for few more settlements.
 */
export const EVENT_TYPES = [
  "payment.sold",
  "payment.undelivered",
  "payment.refunded",
  "payment.held",
  "network.closed",
  "network.opened",
  "wallet.low",
] as const;

export type EventType = (typeof EVENT_TYPES)[number];
