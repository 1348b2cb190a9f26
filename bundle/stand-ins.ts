/**
 * Parts of packages that are not given on, since nothing here uses them. In the bundle something takes their place
 * that cannot be used.
 *
 * - `rpc-websockets`, which `@solana/web3.js` brings for its `Connection`, is under the LGPL and would have to be
 *   replaceable by whoever gets the bundle. Messages are encoded with that package, chains are asked by
 *   `src/mechanism/`.
 * - `node-forge`, by which `acme-client` once made keys and requests, is under a licence of two, and large; what it
 *   makes now it makes with node's own (`src/certificates/`).
 */
import type { Plugin } from "rolldown";

interface StandIn {
  readonly name: string;
  /** Part of the path of the module that asks for it. */
  readonly askedBy: string;
  readonly code: string;
}

const STAND_INS: readonly StandIn[] = [
  {
    name: "rpc-websockets",
    askedBy: "",
    code: `
const SAID = "web sockets of @solana/web3.js are not part of this bundle";
export class CommonClient {
  constructor() {
    throw new Error(SAID);
  }
}
export function WebSocket() {
  throw new Error(SAID);
}
`,
  },
  { name: "./crypto/forge", askedBy: "/acme-client/", code: "export {};" },
];

/** A module of no file. */
const PREFIX = "\0stand-in:";

export function standIns(): Plugin {
  return {
    name: "stand-ins",
    resolveId: (name, importer = "") => {
      const found = STAND_INS.find((each) => each.name === name && importer.includes(each.askedBy));
      return found === undefined ? null : `${PREFIX}${found.name}`;
    },
    load: (id) => STAND_INS.find(({ name }) => id === `${PREFIX}${name}`)?.code ?? null,
  };
}
