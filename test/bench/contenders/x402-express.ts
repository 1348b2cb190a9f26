/**
 * What a user assembles today: x402-express before http-proxy-middleware with a keep-alive agent. The same
 * priced routes as our gateway.
 */
import { Agent, createServer } from "node:http";
import express from "express";
import { createProxyMiddleware } from "http-proxy-middleware";
import { paymentMiddleware } from "x402-express";
import { serve } from "../process.ts";
import { NETWORK, PAY_TO, PRICED_ROUTES } from "./wares.ts";

const [, , target = "", facilitatorUrl = "http://127.0.0.1:9"] = process.argv;
const url = `http://${new URL(facilitatorUrl).host}` as const;

const routes = PRICED_ROUTES.map((path) => [`GET ${path}`, { price: "$0.01", network: NETWORK }]);

const app = express();
app.use(paymentMiddleware(PAY_TO, Object.fromEntries(routes), { url }));
app.use(createProxyMiddleware({ target, agent: new Agent({ keepAlive: true }) }));
serve(createServer(app));
