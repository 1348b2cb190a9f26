/** The short form of `npm run siege`: who is refused, and what is left; how long anybody waits is not judged here. */
import { expect, it } from "vitest";
import { VERSIONS } from "../support/buyer.ts";
import { ATTACKS } from "./attacks.ts";
import { besiege, BUYERS } from "./run.ts";
import { openGateway } from "./stages.ts";

const SHORT = { addresses: 200, seconds: 4 };
const PATIENCE_MS = 180_000;

it(
  "no buyer is refused among 200 addresses with zero windows over HTTP/2",
  async () => {
    const attack = ATTACKS.find(({ name }) => name === "zero windows");
    if (attack === undefined) throw new Error("there is no such attack");
    await using stage = await openGateway(BUYERS, { protocol: "HTTP/2", workers: 1 });
    const { buyers, unready, left, opened } = await besiege(stage, { attack, ...SHORT });
    expect(opened).toBeGreaterThanOrEqual(attack.connections["HTTP/2"]);
    expect([...buyers.refusals]).toEqual([]);
    for (const version of VERSIONS) {
      expect(buyers.in(version)).toBeGreaterThanOrEqual(BUYERS / VERSIONS.length);
    }
    expect(unready).toBe(0);
    expect(left).toEqual([]);
  },
  PATIENCE_MS,
);
