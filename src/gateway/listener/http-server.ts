import type { Server as PlainServer } from "node:http";
import type { Server as SecureServer } from "node:https";

/** Every public server: with TLS, or without. */
export type HttpServer = PlainServer | SecureServer;
