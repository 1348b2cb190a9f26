/**
 * Scripts that complete the command line, made from the program itself, so that they cannot forget an option.
 * What an argument takes is told by its choices, or by its name: `<file>` is a file, a network is one of twelve.
 */
import type { Argument, Command, Option } from "commander";
import { NETWORK_NAMES } from "../x402/network.ts";

/** What may be typed for a value: one of these words, a file, or anything. */
type Values = readonly string[] | "file" | "any";

interface CompletedOption {
  /** `--max` and, where there is one, `-m`. */
  readonly flags: readonly string[];
  readonly description: string;
  /** Null: it takes no value. */
  readonly values: Values | null;
}

interface CompletedCommand {
  readonly name: string;
  readonly description: string;
  readonly options: readonly CompletedOption[];
  /** Of its arguments, in their order; the last goes on for ever. */
  readonly operands: readonly Values[];
}

interface CompletedProgram {
  readonly name: string;
  readonly commands: readonly CompletedCommand[];
  readonly options: readonly CompletedOption[];
}

const FLAVOURS = { bash, zsh, fish };

/** The script for a shell; ends with a line break. */
export function completionScript(program: Command, shell: keyof typeof FLAVOURS): string {
  const help = program.createHelp();
  const commands = help.visibleCommands(program);
  const names = commands.map((command) => command.name());
  const completed = {
    name: program.name(),
    options: help.visibleOptions(program).map(readOption),
    commands: commands.map((command) => readCommand(command, names)),
  };
  return FLAVOURS[shell](completed);
}

/** `help` takes the name of a command, which it does not say itself. */
function readCommand(command: Command, names: readonly string[]): CompletedCommand {
  const isHelp = command.name() === "help";
  return {
    name: command.name(),
    description: command.description(),
    options: command.createHelp().visibleOptions(command).map(readOption),
    operands: isHelp ? [names] : command.registeredArguments.map(readArgument),
  };
}

function readArgument(argument: Argument): Values {
  return argument.argChoices ?? valuesOf(argument.name());
}

function readOption(option: Option): CompletedOption {
  const { short, long, description, argChoices, flags } = option;
  const names = [long, short].filter((flag): flag is string => typeof flag === "string");
  const [, placeholder] = /[<[]([\w.-]+)[\]>]/.exec(flags) ?? [];
  const values = placeholder === undefined ? null : (argChoices ?? valuesOf(placeholder));
  return { flags: names, description, values };
}

function valuesOf(name: string): Values {
  if (name === "network") return NETWORK_NAMES;
  return /file|folder/i.test(name) ? "file" : "any";
}

/** Only words that need no quotes in any shell; everything of ours is. */
function words(values: readonly string[]): string {
  return values.filter((value) => /^[\w./:@%+-]+$/.test(value)).join(" ");
}

function bash({ name, commands, options }: CompletedProgram): string {
  const cases = commands.map((command) => bashCommand(command));
  return `# Completes ${name} in bash; made by \`${name} completion bash\`.
_${name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local command= operands=0 index word skip=0
  COMPREPLY=()
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    if ((skip)); then skip=0; continue; fi
    if [[ -z $command ]]; then
      [[ $word == -* ]] || command=$word
      continue
    fi
    case "$command:$word" in
${bashValued(commands)}      *:-?*) ;;
      *) operands=$((operands + 1)) ;;
    esac
  done
  if [[ -z $command ]]; then
    COMPREPLY=($(compgen -W "${words([...commands.map((each) => each.name), ...flagsOf(options)])}" -- "$current"))
    return
  fi
  case $command in
${cases.join("")}  esac
}
complete -F _${name} ${name}
`;
}

/** Options that take the word behind them, which is then no operand. */
function bashValued(commands: readonly CompletedCommand[]): string {
  return commands
    .flatMap((command) =>
      command.options
        .filter(({ values }) => values !== null)
        .flatMap(({ flags }) => flags.map((flag) => `${command.name}:${flag}`)),
    )
    .map((pattern) => `      ${pattern}) skip=1 ;;\n`)
    .join("");
}

function bashCommand({ name, options, operands }: CompletedCommand): string {
  const valued = options.filter(({ values }) => values !== null);
  const afterOption = valued.map(
    ({ flags, values }) => `        ${flags.join("|")}) ${bashReply(values ?? "any")}; return ;;\n`,
  );
  const byPlace = operands.map(
    (values, index) =>
      `        ${index === operands.length - 1 ? "*" : index}) ${bashReply(values)} ;;\n`,
  );
  const previous =
    afterOption.length === 0 ? "" : `      case $previous in\n${afterOption.join("")}      esac\n`;
  const place =
    byPlace.length === 0 ? "" : `      case $operands in\n${byPlace.join("")}      esac\n`;
  return `    ${name})
${previous}      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "${words(flagsOf(options))}" -- "$current"))
        return
      fi
${place}      ;;
`;
}

function bashReply(values: Values): string {
  if (values === "any") return ":";
  if (values !== "file") return `COMPREPLY=($(compgen -W "${words(values)}" -- "$current"))`;
  // Names may have blanks: one line each, quoted as bash quotes them.
  return `compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current")`;
}

function flagsOf(options: readonly CompletedOption[]): readonly string[] {
  return options.flatMap(({ flags }) => flags);
}

function zsh({ name, commands, options }: CompletedProgram): string {
  const described = commands.map((each) => `    ${zshQuoted(`${each.name}:${each.description}`)}`);
  const cases = commands.map(
    (command) => `    ${command.name})
      _arguments -s \\
${zshArguments(command)}
      ;;
`,
  );
  return `#compdef ${name}
# Completes ${name} in zsh; made by \`${name} completion zsh\`.
_${name}() {
  local -a commands
  commands=(
${described.join("\n")}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    compadd -- ${words(flagsOf(options))}
    return
  fi
  local command=\${words[2]}
  shift words
  ((CURRENT--))
  case $command in
${cases.join("")}  esac
}
if [[ \${funcstack[1]} == _${name} ]]; then _${name} "$@"; else compdef _${name} ${name}; fi
`;
}

function zshArguments({ options, operands }: CompletedCommand): string {
  const lines = [
    ...options.flatMap(({ flags, description, values }) =>
      flags.map((flag) => {
        const value = values === null ? "" : `:value:${zshAction(values)}`;
        return zshQuoted(`*${flag}[${description.replace(/[[\]]/g, "")}]${value}`);
      }),
    ),
    ...operands.map((values, index) => {
      const place = index === operands.length - 1 ? "*" : String(index + 1);
      return zshQuoted(`${place}:argument:${zshAction(values)}`);
    }),
  ];
  return lines.map((line) => `        ${line}`).join(" \\\n");
}

function zshAction(values: Values): string {
  if (values === "file") return "_files";
  return values === "any" ? " " : `(${words(values)})`;
}

function zshQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function fish({ name, commands, options }: CompletedProgram): string {
  const isFirst = "__fish_use_subcommand";
  const lines = [
    `# Completes ${name} in fish; made by \`${name} completion fish\`.`,
    `complete -c ${name} -f`,
    ...commands.map(
      (each) =>
        `complete -c ${name} -n ${isFirst} -a ${each.name} -d ${fishQuoted(each.description)}`,
    ),
    ...options.map((option) => `complete -c ${name} -n ${isFirst}${fishOption(option)}`),
    ...commands.flatMap((command) => {
      const when = `complete -c ${name} -n '__fish_seen_subcommand_from ${command.name}'`;
      return [
        ...command.operands.map((values) => `${when}${fishOperand(values)}`),
        ...command.options.map((option) => `${when}${fishOption(option)}`),
      ];
    }),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

function fishOption({ flags, description, values }: CompletedOption): string {
  const names = flags.map((flag) =>
    flag.startsWith("--") ? ` -l ${flag.slice(2)}` : ` -s ${flag.slice(1)}`,
  );
  const value = values === null ? "" : ` -r${fishOperand(values)}`;
  return `${names.join("")}${value} -d ${fishQuoted(description)}`;
}

function fishOperand(values: Values): string {
  if (values === "file") return " -F";
  return values === "any" ? " -f" : ` -f -a ${fishQuoted(words(values))}`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
