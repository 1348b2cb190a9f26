/** What `coinslot doctor` finds of backends that serve what is priced under other names. */
import type { RequestListener } from "node:http";
import { describe, expect, test } from "vitest";
import { aliasChecks } from "../../../src/diagnosis/doctor/alias-checks.ts";
import type { DoctorFinding } from "../../../src/diagnosis/doctor/finding.ts";
import { configOf } from "../../unit/app/config-of.ts";
import { backend } from "../gateway/stage.ts";

interface Looked {
  readonly findings: readonly DoctorFinding[];
  /** Targets that the backend was asked for. */
  readonly asked: readonly string[];
}

const PAID = "  GET /paid: { price: $0.01, description: Paid }\n";

async function look(
  listener: RequestListener,
  { routes = PAID, unmatched = "free", more = "" } = {},
): Promise<Looked> {
  const asked: string[] = [];
  const origin = await backend((request, response) => {
    asked.push(request.url ?? "");
    listener(request, response);
  });
  const config = configOf(`
upstreams: { app: { targets: ["${origin}"]${more} } }
publicUrl: http://shop.example
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: ${unmatched}
routes:
${routes}`);
  const checks = aliasChecks(config);
  const found = await Promise.all(checks.map(({ run }) => run(AbortSignal.timeout(20_000))));
  return { findings: found.flat(), asked };
}

/** A backend that serves these targets, and no others. */
function serving(...targets: readonly string[]): RequestListener {
  return ({ url = "" }, response) => {
    response.statusCode = targets.includes(url) ? 200 : 404;
    response.end(`${url} at ${performance.now()}`);
  };
}

describe("a backend with other names for what is priced", () => {
  test("is told of with each that is free", async () => {
    const { findings } = await look(serving("/paid", "/paid.json", "/index.php/paid"));
    expect(findings).toMatchObject([{ status: "warn", subject: "aliases of priced paths /paid" }]);
    expect(findings[0]?.message).toBe(
      "the backend answers 2xx to GET /paid.json, which is free, as to what GET /paid sells, and so to /index.php/paid",
    );
    expect(findings[0]?.fix).toContain('"/paid.json": deny');
  });

  test("is fine where they are closed", async () => {
    const routes = `${PAID}  /paid.json: deny\n`;
    const { findings, asked } = await look(serving("/paid", "/paid.json"), { routes });
    expect(findings).toMatchObject([{ status: "ok" }]);
    expect(asked).not.toContain("/paid.json");
  });

  test("is told of where a route makes them free, and not where all else is denied", async () => {
    const routes = `${PAID}  /index.php/*: free\n`;
    const open = await look(serving("/paid", "/index.php/paid"), { routes, unmatched: "deny" });
    expect(open.findings).toMatchObject([{ status: "warn" }]);
    const closed = await look(serving("/paid", "/index.php/paid"), { unmatched: "deny" });
    expect(closed).toEqual({ findings: [], asked: [] });
  });

  test("is asked for the data of a page by the build that the page names", async () => {
    const data = "/_next/data/b-1/paid.json";
    const { findings } = await look(({ url }, response) => {
      response.statusCode = url === "/paid" || url === data ? 200 : 404;
      response.end(url === data ? "{}" : '<script>{"buildId":"b-1"}</script>');
    });
    expect(findings[0]?.message).toContain(data);
  });

  test("is asked as the gateway would ask", async () => {
    const seen: unknown[] = [];
    const more = ", path: { prefix: /v1 }, headers: { set: { X-Key: secret } }, host: app.internal";
    const { asked } = await look(
      ({ headers }, response) => {
        seen.push([headers.host, headers["x-key"]]);
        response.end("same");
      },
      { more },
    );
    expect(asked.every((target) => target.startsWith("/v1/"))).toBe(true);
    expect(seen[0]).toEqual(["app.internal", "secret"]);
  });
});

describe("a backend that answers everything", () => {
  test("alike gives nothing away that has a price", async () => {
    const { findings, asked } = await look((_request, response) => void response.end("<app>"));
    expect(findings).toMatchObject([{ status: "ok" }]);
    expect(asked).toHaveLength(2);
  });

  test("but what is priced with a page is told of the aliases that are not that page", async () => {
    const { findings } = await look(({ url }, response) => {
      response.end(url === "/paid" || url === "/paid.html" ? "goods" : "<app>");
    });
    expect(findings).toMatchObject([{ status: "warn" }]);
    expect(findings[0]?.message).not.toContain(", and so to");
  });
});

test("a backend is asked a bounded number of questions", async () => {
  const paths = Array.from({ length: 40 }, (_, index) => `/paid${index}.txt`);
  const routes = paths.map((path) => `  ${path}: { price: $0.01, description: Paid }\n`).join("");
  const { asked, findings } = await look(serving(...paths), { routes });
  expect(asked).toHaveLength(120);
  expect(findings[0]?.message).toMatch(/^of 9 of 40 priced paths /);
});

test("patterns, other methods and what does not answer are not judged", async () => {
  const routes = `  /items/:id: { price: $0.01, description: Item }
  POST /paid: { price: $0.01, description: Paid }
  GET /broken: { price: $0.01, description: Broken }\n`;
  const { asked, findings } = await look(serving("/broken.json"), { routes });
  expect(asked).toContain("/broken");
  expect(asked).toHaveLength(2);
  expect(findings[0]?.message).toMatch(/^of 0 of 1 priced paths .*did not answer 2xx/);
});
