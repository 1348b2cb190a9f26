/**
 * A real EVM node (anvil) as a child process on a free loopback port, and plain JSON-RPC to it: not by the client that
 * settlements use, so that tests do not trust what they test.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

/** How long anvil may take to listen, milliseconds; it needs about 100. */
const START_TIMEOUT_MS = 60_000;

/** What a shell answers for a command that it cannot find. */
const NOT_FOUND = 127;

/**
 * Runs its arguments as a command until that ends or standard input does. The pipe closes however we end,
 * SIGKILL included, so that no node is left behind; nor are the states of old blocks, 150 kB each, which it puts into
 * its home folder and leaves there. Ctrl-C and the end of a terminal, which all of its processes hear of, are ours to
 * obey.
 */
const WATCHED = `
trap '' INT HUP
exec 3<&0
HOME=$(mktemp -d -t coinslot-anvil-XXXXXX) || exit
export HOME
"$0" "$@" </dev/null 3<&- & node=$!
{ cat <&3 >/dev/null; kill $node; } >/dev/null 2>&1 &
exec 3<&-
wait $node
ended=$?
rm -rf "$HOME"
exit $ended
`;

export interface Anvil {
  readonly rpcUrl: string;
  /** Throws with the node's message when it answers with an error. */
  rpc(method: string, params?: readonly unknown[]): Promise<unknown>;
  /** Ends the process; resolves when it is gone. */
  stop(): Promise<void>;
}

/** Starts anvil with these arguments; rejects with its own words when it does not come up. */
export async function startAnvil(args: readonly string[]): Promise<Anvil> {
  const child = spawn("sh", ["-c", WATCHED, anvilPath(), "--port", "0", ...args], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  const exited = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
  });
  try {
    const rpcUrl = `http://${await listening(child)}`;
    return {
      rpcUrl,
      rpc: (method, params = []) => call(rpcUrl, method, params),
      stop() {
        child.stdin.end();
        return exited;
      },
    };
  } catch (cause) {
    child.stdin.end();
    throw cause;
  }
}

/** The npm package's binary, `ANVIL` where it is set, else `anvil` on the PATH. */
function anvilPath(): string {
  const configured = process.env["ANVIL"];
  if (configured !== undefined && configured !== "") return configured;
  const { platform, arch } = process;
  const target = `@foundry-rs/anvil-${platform}-${arch === "x64" ? "amd64" : arch}`;
  try {
    const manifest = createRequire(import.meta.url).resolve(`${target}/package.json`);
    const binary = manifest.replace(/package\.json$/, "bin/anvil");
    if (existsSync(binary)) return binary;
  } catch {
    // Not installed for this platform: the PATH decides.
  }
  return "anvil";
}

/** Resolves with `host:port` when anvil says that it listens. */
function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const output: string[] = [];
    const fail = (reason: string) => {
      clearTimeout(timer);
      reject(new Error(`anvil did not start: ${reason}\n${output.slice(-5).join("\n")}`.trimEnd()));
    };
    const timer = setTimeout(() => {
      fail(`not listening after ${START_TIMEOUT_MS} ms`);
    }, START_TIMEOUT_MS);
    child.once("error", (error) => fail(error.message));
    child.once("close", (code) => {
      fail(
        code === NOT_FOUND
          ? "there is no such command; install it with npm (optional dependency " +
              "@foundry-rs/anvil-…), put it on the PATH, or name it in ANVIL"
          : `it ended with status ${code ?? "unknown"}`,
      );
    });
    const read = (line: string) => {
      output.push(line);
      const address = /^Listening on (.+)$/.exec(line)?.[1];
      if (address === undefined) return;
      clearTimeout(timer);
      // From here on the log is drained without a reader, so that a full pipe never stops the node.
      output.length = 0;
      child.stdout?.removeAllListeners("data").resume();
      resolve(address);
    };
    if (child.stdout !== null) createInterface({ input: child.stdout }).on("line", read);
    if (child.stderr !== null) createInterface({ input: child.stderr }).on("line", read);
  });
}

async function call(url: string, method: string, params: readonly unknown[]): Promise<unknown> {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const body: unknown = await answer.json();
  if (typeof body === "object" && body !== null) {
    if ("result" in body) return body.result;
    if ("error" in body) throw new Error(`${method}: ${JSON.stringify(body.error)}`);
  }
  throw new Error(`${method}: answered ${JSON.stringify(body)}`);
}
