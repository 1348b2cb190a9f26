/** The short form of `npm run siege`: who is refused, and what is left; how long anybody waits is not judged here. */
import { expect, it } from "vitest";
import { ATTACKS } from "./attacks.ts";
import { besiege, BUYERS } from "./run.ts";
import { openGateway } from "./stages.ts";

const SHORT = { addresses: 200, seconds: 5 };
const PATIENT = { timeout: 120_000 };

it.each(["zero windows", "junk signatures"])(
  "no buyer is refused among 200 addresses with %s over HTTP/2",
  PATIENT,
  async (wanted) => {
    const attack = ATTACKS.find(({ name }) => name === wanted);
    if (attack === undefined) throw new Error(`no attack: ${wanted}`);
    await using stage = await openGateway(BUYERS, { protocol: "HTTP/2", workers: 1 });
    const { buyers, unready, left, opened } = await besiege(stage, { attack, ...SHORT });
    expect(opened).toBeGreaterThanOrEqual(attack.connections["HTTP/2"]);
    expect([...buyers.refusals]).toEqual([]);
    expect(buyers.waits.length).toBeGreaterThanOrEqual(BUYERS);
    expect(unready).toBe(0);
    expect(left).toEqual([]);
  },
);
