/**
 * The sample backend of compose.yaml, to be replaced by yours: any HTTP server will do. It knows nothing of payments;
 * who paid, for what and with which transaction is in three headers that only the gateway can set.
 */
import { createServer } from "node:http";

const PORT = Number(process.env.PORT ?? "3000");

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? "/", "http://backend");
  if (pathname === "/health") return answer(response, 200, { ok: true });
  if (pathname !== "/hello") return answer(response, 404, { error: `nothing is at ${pathname}` });
  const payer = request.headers["x-402-payer"] ?? null;
  return answer(response, 200, { hello: payer ?? "stranger" });
});

function answer(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(`${JSON.stringify(body)}\n`);
}

server.listen(PORT, () => console.log(`listening on ${server.address().port}`));
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => server.close());
