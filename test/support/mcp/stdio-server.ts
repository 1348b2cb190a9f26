/**
 * The stage's server as a program: of `@modelcontextprotocol/sdk` (`sdk`) or of `@modelcontextprotocol/server` (`web`),
 * which speaks every revision. What it tells of itself stands in tools of its own.
 */
import { existsSync, writeFileSync } from "node:fs";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { sdkServer } from "./sdk-server.ts";
import { text, Workshop, type Tool } from "./tools.ts";
import { webServerFactory } from "./web-server.ts";

let calls = 0;

const OWN_TOOLS: readonly Tool[] = [
  {
    name: "self",
    description: "What this process is, and what it was given",
    run: async () => {
      calls += 1;
      const { pid, env, argv } = process;
      return [text(JSON.stringify({ pid, env, args: argv.slice(2), cwd: process.cwd(), calls }))];
    },
  },
  {
    name: "crash",
    description: "Ends without an answer",
    run: () => {
      process.exit(3);
    },
  },
  {
    name: "late",
    description: "Ends without an answer the first time, and answers from then on",
    input: { type: "object", properties: { file: { type: "string" } } },
    run: async ({ args }) => {
      const file = String(args["file"]);
      if (existsSync(file)) return [text("late")];
      writeFileSync(file, "");
      process.exit(4);
    },
  },
  {
    name: "babble",
    description: "Says much beside its messages",
    run: async () => {
      for (let line = 0; line < 1_000; line += 1) process.stderr.write(`line ${line}\n`);
      process.stdout.write("this is no message\n");
      return [text("said")];
    },
  },
  {
    name: "hoard",
    description: "Takes memory",
    run: async ({ progress }) => {
      hoarded.push(Buffer.alloc(400 * 1024 * 1024, 1));
      await progress?.(1, 2);
      return new Promise<never>(() => {});
    },
  },
];
const hoarded: Buffer[] = [];

const tools = [...OWN_TOOLS, ...new Workshop().tools];
if (process.argv[2] === "web") serveStdio(webServerFactory(tools));
else if (process.argv[2] === "deaf") setInterval(() => {}, 1_000);
else if (process.argv[2] === "stubborn") {
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1_000);
  await sdkServer(tools).connect(new StdioServerTransport());
} else await sdkServer(tools).connect(new StdioServerTransport());
