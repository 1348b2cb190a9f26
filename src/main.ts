#!/usr/bin/env node
import packageJson from "../package.json" with { type: "json" };
import { run } from "./cli/cli.ts";

process.exitCode = await run(process.argv.slice(2), packageJson.version);
