/** What the gateway and its peers sell in the benches, and for whom. */

export const PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

export const NETWORK = "base-sepolia";

/** A stream of events, one second long. */
export const EVENTS_PATH = "/products/events";

/** A download of {@link LARGE_KIB}. */
export const LARGE_PATH = "/products/large";
export const LARGE_KIB = 10_240;

/** Priced routes of the gateway and of its peers. */
export const PRICED_ROUTES = [
  ...Array.from({ length: 96 }, (_, index) => `/products/item-${index}`),
  EVENTS_PATH,
  LARGE_PATH,
];
