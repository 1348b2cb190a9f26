/**
 * An agent's day, as deploy/AGENTS.md shows it: from a listing to a bought answer in five messages, recorded between an official client
 * and `coinslot mcp`, before a real gateway, and set out in lines; the README has the picture of it. `UPDATE_GOLDEN=1` writes both.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startAgent } from "../../support/agents/agent.ts";
import { dayPicture } from "../../support/agents/day-picture.ts";
import { richBuyer } from "../../support/buyer.ts";
import { startChain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway } from "../../support/gateway.ts";

const PAPER = join(import.meta.dirname, "../../../deploy/AGENTS.md");
const PICTURE = join(import.meta.dirname, "../../../deploy/pictures/agent-day.svg");
const PLACE =
  /(<!-- recorded by test\/integration\/agents\/day\.test\.ts -->\n)[^]*?(<!-- end -->)/;

test("from a listing to a bought answer, in five messages, as the paper shows it", async () => {
  await using closing = new AsyncDisposableStack();
  const chain = await startChain();
  closing.defer(() => chain.stop());
  const folder = await mkdtemp(join(tmpdir(), "coinslot-day-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const listen = `127.0.0.1:${await freePort()}`;
  const gateway = await startGateway({
    chain,
    listen,
    publicUrl: `http://${listen}`,
    routes: `
  GET /weather:
    price: $0.01
    description: Current weather of a city
    mimeType: application/json
    input: { queryParams: { city: { type: string, required: true } } }
`,
    backend: (_, response) =>
      response.setHeader("Content-Type", "application/json").end('{"city":"Oslo","degrees":4}'),
  });
  closing.use(gateway);
  const buyer = await richBuyer(chain);
  const words = ["--seller", listen, "--max-day", "$0.50", "--state", join(folder, "purchases.db")];
  const env = { COINSLOT_KEY: buyer.privateKey };
  const agent = closing.use(await startAgent({ words, env, revision: "2026-07-28" }));

  const url = `${gateway.url}/weather?city=Oslo`;
  const recorded: string[] = [];
  const lines: string[] = [];
  for (const [tool, args] of [
    ["search", { words: "weather" }],
    ["quote", { url }],
    ["buy", { url }],
    ["balance", {}],
    ["history", {}],
  ] as const) {
    const { facts, answer, isError } = await agent.call(tool, args);
    expect(isError, JSON.stringify(facts)).toBe(false);
    recorded.push(`→ ${tool} ${JSON.stringify(args)}`, JSON.stringify(facts, null, 1));
    if (answer !== undefined) recorded.push(answer);
    recorded.push("");
    lines.push(`→ ${tool} ${JSON.stringify(args)}`, `←   ${inShort(tool, facts, answer)}`);
  }
  const withoutDay = (told: string): string =>
    told
      .replaceAll(listen, "127.0.0.1:8402")
      .replaceAll(buyer.address, "0xTheAgent")
      .replaceAll(gateway.payee, "0xTheSeller")
      .replaceAll(/0x[0-9a-f]{64}/g, "0xTheTransaction")
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "2026-11-28T09:00:00.000Z");
  const text = withoutDay(recorded.join("\n"));
  const picture = dayPicture(lines.map(withoutDay));
  const block = `\n\`\`\`\n${text.trim()}\n\`\`\`\n\n`;
  const paper = await readFile(PAPER, "utf8");
  if (process.env["UPDATE_GOLDEN"] === "1") {
    await writeFile(
      PAPER,
      paper.replace(PLACE, (_, begin, end) => `${begin}${block}${end}`),
    );
    await writeFile(PICTURE, picture);
    return;
  }
  expect(PLACE.exec(paper)?.[0]).toContain(block);
  expect(await readFile(PICTURE, "utf8")).toBe(picture);
});

/** What of an answer has room on a line. */
function inShort(tool: string, facts: object, answer: string | undefined): string {
  const { found, purchases, today, ...told } = Object(facts);
  switch (tool) {
    case "search": {
      const [{ method, url, prices, description }] = found;
      return `${method} ${url}: ${description}, ${prices.join(" or ")}`;
    }
    case "quote":
      return `${told.price} on ${told.network}, to be bought: ${told.wouldBuy}`;
    case "buy":
      return `${told.state}, ${told.amount}: ${answer}`;
    case "balance":
      return `today ${today.spentOrPromised} of ${today.budget}, ${today.left} left`;
    default:
      return `${purchases.length} purchase: ${purchases[0].what}, ${purchases[0].amount}, ${purchases[0].state}`;
  }
}
