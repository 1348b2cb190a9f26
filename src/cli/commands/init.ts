/** `init` on the command line: its arguments, options and exit codes. */
import { Option, type Command } from "commander";
import { NETWORK_NAMES } from "../../x402/network.ts";
import type { InitOptions } from "../init/init.ts";

const HELP = `
On a terminal it asks for what is not given. Without one, --upstream and --pay-to are needed; what else is left
out gets the value in brackets. --facilitator embedded settles in the gateway itself, with a key that pays the gas:
it is made where there is none. The default is the public facilitator of x402.org where that settles (base-sepolia,
solana-devnet), and embedded elsewhere.

--from reads OpenAPI 3.0 and 3.1 and Swagger 2, in YAML or JSON, from a file or a URL: every path and method becomes a
route at --price, with its parameters, body and answer. What wants a credential, what is the operator's own and what
tells whether the backend is well is not sold; what cannot be imported is listed with its reason. A description of
OpenAPI 3 is published with prices at /openapi.json (one from a URL is kept beside the file).

Beside the file it writes gateway.schema.json, with which an editor completes and checks the file, unless it is there.

Exit codes: 0 done, 1 failed (nothing was written), 2 wrong usage.`;

/** Adds the command; `done` is told its exit code. */
export function addInit(program: Command, done: (code: number) => void): void {
  program
    .command("init")
    .description("write a first configuration file, from questions or options")
    .argument("[file]", "the file to write", "gateway.yaml")
    .option("--upstream <url>", "the backend whose answers are sold: http://localhost:3000")
    .option("--public-url <url>", "where buyers reach the gateway (http://localhost:8402)")
    .option("--pay-to <address>", "who is paid; once for EVM and once for Solana", collect)
    .addOption(
      new Option("--network <name>", "in which networks' USDC; may be repeated (base-sepolia)")
        .choices(NETWORK_NAMES)
        .argParser(collect),
    )
    .option("--facilitator <url>", "who settles: the URL of a facilitator, or embedded")
    .option("--price <price>", "of every route: '$0.01' ($0.01)")
    .option(
      "--from <file>",
      "import the routes of an OpenAPI or Swagger description: a file or a URL",
    )
    .option("--force", "overwrite the file")
    .option("--json", "what was written, as one JSON document")
    .addHelpText("after", HELP)
    .action(async (file: string, options: InitOptions) => {
      const { init } = await import("../init/init.ts");
      done(await init(file, options));
    });
}

function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(",").map((each) => each.trim())];
}
