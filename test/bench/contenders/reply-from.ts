/** `@fastify/reply-from` on fastify, with its undici pool; request bodies pass through as streams. */
import replyFrom from "@fastify/reply-from";
import fastify from "fastify";
import { ready } from "../process.ts";

const [, , base = ""] = process.argv;
/** Idle connections outlast the bench. */
const KEEP_ALIVE_MS = 300_000;

const app = fastify({ keepAliveTimeout: KEEP_ALIVE_MS });
app.removeAllContentTypeParsers();
app.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
await app.register(replyFrom, { base });
app.all("/*", (request, reply) => reply.from(request.url));
ready(await app.listen({ port: 0, host: "127.0.0.1" }));
