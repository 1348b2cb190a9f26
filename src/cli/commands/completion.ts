/** `completion` on the command line: its arguments and how its scripts are installed. */
import { Argument, type Command } from "commander";

const HELP = `
  bash   coinslot completion bash > ~/.local/share/bash-completion/completions/coinslot
         or, in this shell: source <(coinslot completion bash)
  zsh    coinslot completion zsh > a folder of $fpath, as _coinslot
  fish   coinslot completion fish > ~/.config/fish/completions/coinslot.fish

Exit codes: 0 done, 2 wrong usage.`;

/** Adds the command; the script knows every command that is in the program when it is asked for. */
export function addCompletion(program: Command): void {
  program
    .command("completion")
    .description("print a script that completes commands, options and their values")
    .addArgument(new Argument("<shell>", "for which shell").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", HELP)
    .action(async (shell: "bash" | "zsh" | "fish") => {
      const { completionScript } = await import("../completion.ts");
      process.stdout.write(completionScript(program, shell));
    });
}
