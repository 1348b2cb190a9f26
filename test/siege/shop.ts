/** The shop behind the gateway, as a process of its own: goods at once, and one answer that nobody can hold. */
import { createServer } from "node:http";
import { serve } from "../bench/process.ts";
import { PATHS } from "./attacks.ts";

/** More than all buffers on the way hold. */
const LARGE_BYTES = 16 * 1024 * 1024;

const large = Buffer.alloc(LARGE_BYTES, "a");
const server = createServer((request, response) => {
  response.on("error", () => undefined);
  if (request.url === PATHS.large) response.end(large);
  else request.resume().once("end", () => response.end("goods"));
});
serve(server);
