#!/usr/bin/env node
import packageJson from "../package.json" with { type: "json" };
import { run } from "./cli/cli.ts";

// A reader such as `head` leaves when it has seen enough, which is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

// Node tells of what packages do that it will not have for ever: in a bundle that is told to users, who cannot help it.
process.noDeprecation = true;

process.exitCode = await run(process.argv.slice(2), packageJson.version);
