/** The shop behind the gateway, as a process of its own: goods at once, and answers that strangers do not take. */
import { createServer } from "node:http";
import { serve } from "../bench/process.ts";
import { PATHS } from "./attacks.ts";

const LARGE: ReadonlyMap<string, Buffer> = new Map([
  [PATHS.large, Buffer.alloc(256 * 1024, "a")],
  [PATHS.huge, Buffer.alloc(16 * 1024 * 1024, "a")],
]);

const server = createServer((request, response) => {
  response.on("error", () => undefined);
  const large = LARGE.get(request.url ?? "");
  if (large !== undefined) response.end(large);
  else request.resume().once("end", () => response.end("goods"));
});
serve(server);
