/**
 * What a user assembles today: x402-express before http-proxy-3 (whose `web()` is what
 * http-proxy-middleware calls too) with a keep-alive agent. The same priced routes as our gateway.
 */
import { Agent, createServer } from "node:http";
import express from "express";
import { createProxyServer } from "http-proxy-3";
import { paymentMiddleware } from "x402-express";
import { serve } from "../process.ts";
import { PAY_TO, PRICED_ROUTES } from "./coinslot.ts";

const [, , backend = "", facilitatorUrl = "http://127.0.0.1:9"] = process.argv;
const url = `http://${new URL(facilitatorUrl).host}` as const;

const routes = PRICED_ROUTES.map((path) => [
  `GET ${path}`,
  { price: "$0.01", network: "base-sepolia" as const },
]);
const proxy = createProxyServer({ target: backend, agent: new Agent({ keepAlive: true }) });
proxy.on("error", (error) => process.stderr.write(`proxy: ${error.message}\n`));

const app = express();
app.use(paymentMiddleware(PAY_TO, Object.fromEntries(routes), { url }));
app.use((request, response) => {
  proxy.web(request, response);
});
serve(createServer(app));
