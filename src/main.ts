#!/usr/bin/env node
import packageJson from "../package.json" with { type: "json" };

/** Older ones have no SQLite of their own, and cannot load all of what follows. */
const OLDEST_NODE = 24;

// A reader such as `head` leaves when it has seen enough, which is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

// Node tells of what packages do that it will not have for ever: in a bundle that is told to users, who cannot help it.
process.noDeprecation = true;

if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
  const { node } = process.versions;
  process.stderr.write(`coinslot needs Node ${OLDEST_NODE} or newer, and this is Node ${node}\n`);
  process.exitCode = 1;
} else {
  const { run } = await import("./cli/cli.ts");
  process.exitCode = await run(process.argv.slice(2), packageJson.version);
}
