/** The 402 answer: the whole gateway, nginx with the same body as a constant, Node's own server with all of it as one, and x402-express. */
import { PRICED_ROUTES } from "../contenders/wares.ts";
import { measure, type Contender } from "../rounds.ts";
import { report, type AimRow } from "./aims.ts";
import { against, CONSTANT, NGINX, OURS, paceOf, X402, type Stage } from "./stage.ts";

const CONNECTIONS = 64;
const PACE = { rounds: 9, roundMs: 500, warmUpMs: 800, warmUpAnswers: 15_000 };

export async function comparePaymentRequired(stage: Stage): Promise<AimRow[]> {
  const requests = PRICED_ROUTES.map((path) =>
    Buffer.from(
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n`,
    ),
  );
  const job = { connections: CONNECTIONS, requests, expect: { status: 402, text: '"accepts":[' } };
  const servers = await stage.servers(against([OURS, NGINX, CONSTANT, X402]));
  const contenders = servers.map(({ name, server }): Contender => ({ name, server, job }));
  const measured = await measure(stage.load, contenders, paceOf(PACE));
  return report("402 answers, 98 routes in turn", measured, {
    nginx: { aim: 4, stretch: 3 },
    x402: { aim: 0.3, stretch: 0.2 },
  });
}
