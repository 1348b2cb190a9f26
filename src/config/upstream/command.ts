/** `command` of an upstream: a server of MCP that is started as a process and asked by its standard streams, in place of targets. */
import { z } from "zod";
import { Secret } from "../facilitator/secret.ts";
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import {
  described,
  duration,
  listOf,
  map,
  optional,
  plainText,
  size,
  whole,
} from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

/** A program, and how many of its processes there may be. */
export interface CommandUpstream {
  /** The program and its arguments, as they are: no shell reads them. */
  readonly run: readonly string[];
  /** All of its environment beside PATH. */
  readonly env: readonly { readonly name: string; readonly value: Secret }[];
  /** Null: where the gateway itself was started. */
  readonly cwd: string | null;
  /** At the same time, of all clients. */
  readonly processes: number;
  /** At the same time, for one address (of IPv6: one /64). */
  readonly perClient: number;
  /** Without a message of its client, milliseconds. */
  readonly idleMs: number;
  /** Of one process, milliseconds. */
  readonly lifeMs: number;
  /** Of one message, in either direction, bytes. */
  readonly messageBytes: number;
  /** Of what one process and those that it has started have in memory, bytes; null: nobody looks. */
  readonly memoryBytes: number | null;
}

/** Each is a process of the system's, and of its memory. */
const MAX_PROCESSES = 1_000;
/** A message is held whole, more than once. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;
/** Below that no runtime starts. */
const LEAST_MEMORY_BYTES = 16 * 1024 * 1024;

const run = listOf(plainText);

const commandMap = map({
  run: described(run, "The program and its arguments, as they are: no shell reads them."),
  env: optional(
    z.record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of a variable"),
      plainText,
      "must be a map",
    ),
    "All of its environment beside PATH; nothing of the gateway's is handed on.",
  ),
  cwd: optional(plainText, "Where it is started. Without it: where the gateway was."),
  processes: optional(
    whole(1, MAX_PROCESSES),
    "At the same time, one for each session. Who needs one then takes the place of who was silent for longest, or hears 503.",
    32,
  ),
  perClient: optional(whole(1, MAX_PROCESSES), "At the same time, for one address.", 4),
  idle: optional(duration, "How long a session lives without a message of its client.", "10m"),
  life: optional(duration, "How long a process lives in any case.", "12h"),
  message: optional(
    size,
    "The largest message in either direction, up to 64MiB. Of values a client's has 16,384 at most, nested in 256 levels.",
    "4MiB",
  ),
  memory: optional(
    size,
    "What one process may have in memory, with those that it has started, before it is ended, from 16MiB; looked at each second, on Linux.",
  ),
});

export const command = z.union(
  [run.transform((program) => commandMap.parse({ run: program })), commandMap],
  "must be a list of a program and its arguments, or a map with run",
);

export function resolveCommand(
  written: z.output<typeof command>,
  path: Path,
  { problems }: Context,
): CommandUpstream {
  const {
    run: program,
    env = {},
    cwd,
    processes,
    perClient,
    idle,
    life,
    message,
    memory,
  } = written;
  const [name = ""] = program;
  if (name === "") problems.error(path, fault("bad-value", "must name a program"));
  for (const [key, ms] of Object.entries({ idle, life })) {
    if (ms < LEAST_MS) problems.error([...path, key], fault("bad-value", "must be at least 1s"));
  }
  if (message < 1024 || message > MAX_MESSAGE_BYTES) {
    problems.error([...path, "message"], fault("bad-value", "must be from 1KiB to 64MiB"));
  }
  if (memory !== undefined && memory < LEAST_MEMORY_BYTES) {
    problems.error([...path, "memory"], fault("bad-value", "must be at least 16MiB"));
  }
  return {
    run: program,
    env: Object.entries(env).map(([each, value]) => ({ name: each, value: new Secret(value) })),
    cwd: cwd ?? null,
    processes,
    perClient: Math.min(perClient, processes),
    idleMs: idle,
    lifeMs: life,
    messageBytes: message,
    memoryBytes: memory ?? null,
  };
}

/** Of `idle` and `life`, milliseconds: processes are looked at twice a second. */
const LEAST_MS = 1_000;
