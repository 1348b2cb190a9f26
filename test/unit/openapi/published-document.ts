/** Descriptions as a gateway publishes them, of configurations that differ from one in what a test is about. */
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect } from "vitest";
import { Publications } from "../../../src/publishing/publishing.ts";
import { parseConfig } from "../../../src/config/config.ts";
import { NO_FEE_PAYERS, type FeePayers } from "../../../src/payments/sale/offers.ts";

const EURC = "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD";
const HEAD = `
upstream: http://localhost:3000
publicUrl: https://api.example.com/shop
payTo: { evm: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", solana: 2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4 }
accept: [base]
assets: { EURC: { avalanche: { address: "${EURC}", decimals: 6, eip712: { name: Euro Coin, version: "2" } } } }
facilitator: https://facilitator.example.com
`;
const ROUTES = `
  GET /weather:
    price: $0.01
    description: Current weather
    mimeType: application/json
    outputSchema: { type: object, properties: { temperature: { type: number } } }
    input:
      queryParams: { city: { type: string, required: true, description: Which one }, days: integer, odd: { type: date } }
      headerFields: { Accept-Language: { type: string }, X-Trace: the trace, X-PAYMENT: { type: string } }
  POST /v1/chat: { price: $0.02, description: Chat, input: { bodyType: json, bodyFields: { prompt: { type: string, required: true }, n: number } } }
  PUT /upload: { price: $0.02, description: Upload, input: { bodyType: binary } }
  GET /reports/:id: { price: $0.25, description: A report, input: { pathParams: { id: { type: integer, example: 7 } } } }
  DELETE /reports/:name: { price: $0.5, description: Away with it }
  /any/:rest/*: { price: $1, description: "Quote \\" and </script> and 🎉" }
  GET /: { price: $0.01, description: The root }
  PROPFIND /dav: { price: $0.01, description: A method that OpenAPI has not }
  GET /euro: { description: In euros, accept: [{ network: avalanche, asset: EURC, amount: "9300" }] }
  GET /sol: { price: $0.01, description: On Solana, accept: [solana] }
  GET /secret: { price: $0.01, description: Not for all, discoverable: false }
  GET /health: free
  /admin/*: deny
`;

export function documentOf({
  routes = ROUTES,
  openapi = "true",
  unmatched = "deny",
  from = "",
  contact,
  feePayers = NO_FEE_PAYERS,
}: {
  readonly routes?: string;
  readonly openapi?: string;
  readonly unmatched?: string;
  readonly from?: string;
  readonly contact?: string;
  readonly feePayers?: FeePayers;
} = {}) {
  const named = contact === undefined ? "" : `, contact: ${contact}`;
  const discovery = `discovery: { openapi: ${openapi}${named} }\nunmatched: ${unmatched}\n`;
  const text = `${HEAD}${discovery}routes:${routes}`;
  const parsed = parseConfig(text, { file: "x.yaml", env: {}, readFile: () => from });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  const { publish } = new Publications(parsed.config, { changes: new Map(), feePayers });
  const asked = { path: "/openapi.json", query: "", ifNoneMatch: undefined };
  const { status, type, body } = publish(asked);
  expect([status, type]).toEqual([200, "application/json"]);
  return Object(JSON.parse(body));
}

export async function faultsOf(document: Record<string, unknown>): Promise<unknown> {
  const validator = new Validator();
  const result = await validator.validate(structuredClone(document));
  if (!result.valid) return result.errors;
  expect(validator.version).toBe("3.1");
  // A reference that leads nowhere would throw.
  validator.resolveRefs();
  return [];
}
