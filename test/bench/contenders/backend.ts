/** The backend behind every proxy: `/files/N` answers N KiB once the request is complete. */
import { createServer } from "node:http";
import { serve } from "../process.ts";

const bodies = new Map([1, 64].map((size) => [`/files/${size}`, Buffer.alloc(size * 1024, "x")]));

const server = createServer((request, response) => {
  request.resume().on("end", () => {
    const body = bodies.get(request.url ?? "") ?? Buffer.alloc(0);
    response.writeHead(200, {
      "Content-Type": "application/octet-stream",
      "Content-Length": body.length,
    });
    response.end(body);
  });
});
serve(server);
