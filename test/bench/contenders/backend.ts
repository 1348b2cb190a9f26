/** The backend behind every proxy: `/files/N` answers N KiB once the request is complete. */
import { createServer } from "node:http";
import { ready } from "../process.ts";

const bodies = new Map([1, 64].map((size) => [`/files/${size}`, Buffer.alloc(size * 1024, "x")]));

const server = createServer((request, response) => {
  request.resume().on("end", () => {
    const body = bodies.get(request.url ?? "") ?? Buffer.alloc(0);
    response.writeHead(200, [
      ...["Content-Type", "application/octet-stream"],
      ...["Content-Length", String(body.length)],
    ]);
    response.end(body);
  });
});
server.keepAliveTimeout = 75_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object") ready(`http://127.0.0.1:${address?.port}`);
});
