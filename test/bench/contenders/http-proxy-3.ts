/** http-proxy-3's `web()` alone on Node's server, with a keep-alive agent. */
import { Agent, createServer } from "node:http";
import { createProxyServer } from "http-proxy-3";
import { serve } from "../process.ts";

const [, , target = ""] = process.argv;
const proxy = createProxyServer({ target, agent: new Agent({ keepAlive: true }) });
serve(
  createServer((request, response) => {
    proxy.web(request, response);
  }),
);
