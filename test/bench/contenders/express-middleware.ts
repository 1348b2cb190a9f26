/** express before http-proxy-middleware, with a keep-alive agent and nothing to pay. */
import { Agent, createServer } from "node:http";
import express from "express";
import { createProxyMiddleware } from "http-proxy-middleware";
import { serve } from "../process.ts";

const [, , target = ""] = process.argv;
const app = express();
app.use(createProxyMiddleware({ target, agent: new Agent({ keepAlive: true }) }));
serve(createServer(app));
