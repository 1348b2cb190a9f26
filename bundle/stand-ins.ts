/**
 * `@solana/web3.js` brings a client for websockets, `rpc-websockets`, which is under the LGPL and would have to be
 * replaceable by whoever gets the bundle. Only its `Connection` uses it, and nothing here does: messages are encoded
 * with that package, chains are asked by `src/mechanism/`. In the bundle a class takes its place that cannot be made.
 */
import type { Plugin } from "rolldown";

const PACKAGE = "rpc-websockets";
/** A module of no file. */
const STAND_IN = "\0without-web-sockets";

const CODE = `
const SAID = "web sockets of @solana/web3.js are not part of this bundle";
export class CommonClient {
  constructor() {
    throw new Error(SAID);
  }
}
export function WebSocket() {
  throw new Error(SAID);
}
`;

export function withoutWebSockets(): Plugin {
  return {
    name: "without-web-sockets",
    resolveId: (name) => (name === PACKAGE ? STAND_IN : null),
    load: (id) => (id === STAND_IN ? CODE : null),
  };
}
