/** Answers that two readers could read differently, or that would lead a client astray: nobody gets them. */
import { answer, type RefusedCase } from "../case.ts";

const malformed = (name: string, bytes: string, why: string): RefusedCase => ({
  name,
  ask: { method: "GET" },
  answer: bytes,
  ends: true,
  status: 502,
  why,
});

export const refusedAnswers: readonly RefusedCase[] = [
  malformed(
    "of two lengths",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "two framings",
  ),
  malformed(
    "of a length and chunks",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two framings",
  ),
  malformed("of a length below zero", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no length"),
  malformed(
    "with a folded line",
    "HTTP/1.1 200 OK\r\nX-A: 1\r\n  2\r\nContent-Length: 0\r\n\r\n",
    "obsolete (RFC 9112 section 5.2)",
  ),
  malformed(
    "with a bare line feed",
    "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
    "ends of lines are CRLF",
  ),
  malformed(
    "in a transfer coding of its own",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "nobody asked for it with TE",
  ),
  malformed("that is no HTTP", "hello\r\n\r\n", "no status line"),
  malformed(
    "of a version of its own",
    "HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no status line",
  ),
  malformed(
    "with a space before a colon",
    "HTTP/1.1 200 OK\r\nX-A : 1\r\nContent-Length: 0\r\n\r\n",
    "no field line",
  ),
  malformed(
    "with a NUL in a value",
    "HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 0\r\n\r\n",
    "no field line",
  ),
  malformed(
    "that switches unasked",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "nobody asked",
  ),
  malformed(
    "402 that says nothing of x402",
    answer("402 Payment Required", [], "pay").toString("latin1"),
    "clients of x402 fail on it",
  ),
  malformed("that ends within its head", "HTTP/1.1 200 OK\r\nContent-Le", "cut off"),
  malformed("of nothing at all", "", "cut off"),
];
