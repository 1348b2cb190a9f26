/** What `coinslot doctor` finds of backends whose answers are to say what they have used. */
import type { RequestListener } from "node:http";
import { expect, test } from "vitest";
import type { DoctorFinding } from "../../../src/diagnosis/doctor/finding.ts";
import { meterChecks } from "../../../src/diagnosis/doctor/meter-checks.ts";
import { configOf } from "../../unit/app/config-of.ts";
import { backend } from "../gateway/stage.ts";

const METER = `{ of: json("usage.total"), each: $0.001, max: $0.5 }`;

async function look(
  listener: RequestListener,
  routes = `  GET /ask: { meter: ${METER}, description: Asked }`,
): Promise<{ readonly findings: readonly DoctorFinding[]; readonly asked: readonly string[] }> {
  const asked: string[] = [];
  const origin = await backend((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers["accept-encoding"]}`);
    listener(request, response);
  });
  const config = configOf(`
upstream: ${origin}
publicUrl: http://shop.example
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
credits: { packs: [$1] }
unmatched: deny
routes:
  GET /paid: { price: $0.01, description: Paid }
${routes}`);
  const found = await Promise.all(
    meterChecks(config).map(({ run }) => run(AbortSignal.timeout(20_000))),
  );
  return { findings: found.flat(), asked };
}

const saying = (body: string, status = 200): RequestListener => {
  return (_request, response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  };
};

test("is told what an answer says, and is asked for nothing else", async () => {
  const { findings, asked } = await look(saying(`{"usage":{"total":17}}`));
  expect(findings).toEqual([
    {
      subject: "meter of GET /ask",
      status: "ok",
      message: `json("usage.total") says 17`,
      fix: null,
    },
  ]);
  expect(asked).toEqual(["GET /ask identity"]);
});

test("is warned where an answer does not say it, since it costs the most", async () => {
  const { findings } = await look(saying(`{"usage":{"tokens":17}}`));
  expect(findings).toMatchObject([
    {
      status: "warn",
      message: "an answer does not say what it has used (absent), and so costs $0.5",
    },
  ]);
});

test("says so where the backend gives no answer to a plain GET", async () => {
  const { findings } = await look(saying("{}", 400));
  expect(findings).toMatchObject([
    { status: "ok", message: "cannot be looked at: the backend answers 400 to a plain GET" },
  ]);
});

test("asks for nothing that is only sent, or whose path is not whole", async () => {
  const { findings, asked } = await look(
    saying(`{"usage":{"total":17}}`),
    `  POST /chat: { meter: ${METER}, description: Sent }
  GET /ask/*: { meter: ${METER}, description: Asked }`,
  );
  expect({ findings, asked }).toEqual({ findings: [], asked: [] });
});
