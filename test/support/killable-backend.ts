/** A backend in a process of its own, so that it can be killed: writes its port to stdout, answers late. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Long enough that requests are under way at any time, milliseconds. */
const ANSWER_AFTER_MS = 5;

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  request.resume().on("end", () => {
    setTimeout(() => response.end(`served by ${process.pid}`), ANSWER_AFTER_MS);
  });
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
