/** Node's own server with one constant answer: what is left of a 402 where nothing is decided. */
import { createServer } from "node:http";
import { serve } from "../process.ts";

const [, , url = ""] = process.argv;
const answer = await fetch(url);
const body = Buffer.from(await answer.arrayBuffer());
const headers = new Headers(answer.headers);
for (const name of ["connection", "date", "keep-alive", "transfer-encoding"]) headers.delete(name);
headers.set("content-length", String(body.length));
const lines = [...headers].flat();
serve(createServer((_, response) => void response.writeHead(answer.status, lines).end(body)));
