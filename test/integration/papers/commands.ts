/** What runs each command that a paper shows. */

/** How a command is run; `like` is one or more of them, as {@link shortened} writes them. */
export type Run =
  /** On the stage of `commands.test.ts`, as it stands in the paper, with what it leaves open filled in. */
  | { readonly like: RegExp; readonly how: "here"; readonly codes?: readonly number[] }
  /** By `.ci/run`, in this line. */
  | { readonly like: RegExp; readonly how: "ci"; readonly line: string }
  /** By a test, which gives the command line these words, or starts this script. */
  | { readonly like: RegExp; readonly how: "test"; readonly test: string; readonly words: string }
  /** In a short form: the test and the command's own script call the same function. */
  | {
      readonly like: RegExp;
      readonly how: "short";
      readonly test: string;
      readonly script: string;
      readonly calls: string;
    }
  /** By nobody, for that reason; in its place the test does what it says. */
  | {
      readonly like: RegExp;
      readonly how: "not run";
      readonly why: string;
      readonly instead: string;
      readonly words: string;
    };

/** The command without what differs only in where it is run: `coinslot` for `npm run -s coinslot --`, FILE for a file. */
export function shortened(command: string): string {
  return command
    .replace(/^npm run -s coinslot -- /, "coinslot ")
    .replace(/^npm run -s /, "npm run ")
    .replace(/(?<= )(?:\$CONFIG|(?:\S*\/)?gateway\.yaml)(?= |$)/, "FILE");
}

const CHAOS = {
  how: "short",
  test: "test/chaos/chaos.test.ts",
  script: "test/chaos/chaos.ts",
} as const;
const SIMULATION = {
  how: "short",
  test: "test/simulation/simulation.test.ts",
  script: "test/simulation/simulate.ts",
} as const;
const PROOFS = { how: "short", test: "test/proxy/memory.test.ts" } as const;
const BENCHES = "test/integration/papers/benches.test.ts";

function bench(name: string, words = `${name}.ts`): Run {
  return { like: new RegExp(`^npm run bench:${name}$`), how: "test", test: BENCHES, words };
}

function cli(command: string, test: string, words = `"${command}"`): Run {
  const like = new RegExp(`^coinslot ${command}(?: FILE)?$`);
  return { like, how: "test", test: `test/integration/cli/${test}.test.ts`, words };
}

export const RUNS: readonly Run[] = [
  // The first two commands of all, and those of whoever changes something.
  { like: /^npm ci && npm run demo$/, how: "ci", line: "npm run -s demo -- --once --solana" },
  {
    like: /^npm run demo -- --(?:once|solana)$/,
    how: "ci",
    line: "npm run -s demo -- --once --solana",
  },
  { like: /^npm ci$/, how: "ci", line: "npm ci" },
  { like: /^(?:npm ci && )?npm test$/, how: "ci", line: "npm test -- --reporter" },
  { like: /^npm run check$/, how: "ci", line: "npm run check" },
  {
    like: /^\.ci\/run$/,
    how: "not run",
    why: "It is what runs the suite.",
    instead: ".ci/run",
    words: "npm test",
  },
  {
    like: /^npm run format$/,
    how: "not run",
    why: "It writes files of the tree; `npm run check` fails where it would change one.",
    instead: "package.json",
    words: "oxfmt --check",
  },
  {
    like: /^npm run paper$/,
    how: "short",
    test: "test/unit/config/paper.test.ts",
    script: "test/support/config-paper.ts",
    calls: "configPaper",
  },
  {
    like: /^npm run pictures$/,
    how: "test",
    test: "test/browser/pictures.test.ts",
    words: "support/pictures.ts",
  },

  // The program.
  { like: /^coinslot --version$/, how: "here" },
  { like: /^coinslot (?:check|routes)(?: FILE)?$/, how: "here" },
  {
    like: /^coinslot routes FILE POST \/generate --body request\.json$/,
    how: "test",
    test: "test/integration/cli/routes.test.ts",
    words: '"/generate", "--body"',
  },
  // It is what the stage is started with.
  { like: /^coinslot serve(?: FILE)?$/, how: "here" },
  { like: /^coinslot pay URL --dry-run$/, how: "here" },
  {
    like: /^coinslot payments(?: FILE)?(?: --(?:undelivered|unrefunded|held))?(?: --since \w+)?$/,
    how: "here",
  },
  {
    like: /^coinslot (?:pause|resume) FILE(?: all)?$/,
    how: "test",
    test: "test/integration/cli/resolve.test.ts",
    words: "runHere([name, site.file, ...options], env)",
  },
  {
    like: /^coinslot webhooks FILE(?: --test| --replay --failed)?$/,
    how: "test",
    test: "test/integration/refunds.test.ts",
    words: 'runHere(["webhooks", shop.site.file, ...words], shop.env)',
  },
  { like: /^coinslot payments FILE --state [A-Z,]+(?: --since \w+)?$/, how: "here" },
  { like: /^coinslot payments(?: FILE)? --show(?: KEY)?$/, how: "here" },
  { like: /^coinslot payments FILE --export PATH$/, how: "here" },
  { like: /^coinslot payments FILE --used-elsewhere$/, how: "here" },
  { like: /^coinslot recover(?: FILE)?$/, how: "here" },
  {
    like: /^coinslot forecast(?: FILE LOG…)?$/,
    how: "test",
    test: "test/integration/shadow.test.ts",
    words: '"forecast"',
  },
  {
    like: /^(?:umask 077 && pg_dump|psql|pg_restore) /,
    how: "test",
    test: "test/integration/ledger/postgres-backup.test.ts",
    words: "commandsOf(",
  },
  {
    like: /^coinslot backup FILE (?:TO|copy\.db)$/,
    how: "test",
    test: "test/integration/cli/backup.test.ts",
    words: '"backup"',
  },
  {
    like: /^coinslot payments(?: FILE| \$CONFIG)? --resolve(?: KEY)?(?: --deliver| --refund(?: --by-hand)?(?: --note ".*")?)?$/,
    how: "test",
    test: "test/integration/cli/resolve.test.ts",
    words: '"--resolve"',
  },
  {
    like: /^coinslot payments(?: FILE| \$CONFIG) --refund-credits PAYER(?: --network [a-z-]+)?(?: --amount \$[0-9.]+)?(?: --by-hand)?$/,
    how: "test",
    test: "test/integration/refunded-credits.test.ts",
    words: '"--refund-credits"',
  },
  {
    like: /^coinslot payments FILE --forget PAYER(?: --dry-run)?$/,
    how: "test",
    test: "test/integration/cli/payments.test.ts",
    words: '"--forget", PAYER',
  },
  {
    like: /^coinslot try http:\/\/localhost:3000\/$/,
    how: "test",
    test: "test/integration/cli/try.test.ts",
    words: '"try", url',
  },
  {
    like: /^coinslot reload(?: --allow-free| --dry-run)?(?: FILE| \$CONFIG)?$/,
    how: "test",
    test: "test/integration/reload.test.ts",
    words: '"reload"',
  },
  cli("init", "init"),
  cli("doctor", "doctor"),
  cli("listing", "listing"),
  cli("books", "books"),

  // What an operator types.
  { like: /^(?:ADMIN|CONFIG)=|^LOGS="journalctl/, how: "here" },
  { like: /^curl /, how: "here" },
  // Where nothing of the kind was logged, nothing is found.
  { like: /^\$LOGS \|/, how: "here", codes: [0, 1] },
  { like: /^chmod 600 coinslot\.db\*$/, how: "here" },
  {
    like: /sqlite3 coinslot\.db/,
    how: "not run",
    why: "The program sqlite3 is on few machines; the same SQL and the same backup are made with Node's own SQLite.",
    instead: "test/integration/papers/commands.test.ts",
    words: "VACUUM",
  },
  {
    like: /^dmesg \|/,
    how: "not run",
    why: "The kernel's log is the whole machine's; what the section is about, a worker that dies, is made to happen.",
    instead: "test/integration/workers/death.test.ts",
    words: "SIGKILL",
  },
  {
    like: /^(?:docker build|docker compose) /,
    how: "not run",
    why: "It needs Docker; what the Dockerfile puts into the image runs without one, and the compose file is read by compose.",
    instead: "test/integration/cli/image.test.ts",
    words: "Dockerfile",
  },
  {
    like: /^(?:LOGS=")?kubectl /,
    how: "not run",
    why: "It needs a cluster; the manifests are built by kubectl, and what they start is checked.",
    instead: "test/integration/deploy/kubernetes.test.ts",
    words: "kubectl",
  },
  {
    like: /^npm pack$/,
    how: "test",
    test: "test/integration/cli/package.test.ts",
    words: '"pack"',
  },
  {
    like: /^npm install -g \.\/coinslot-\*\.tgz$/,
    how: "not run",
    why: "It would install the package for everybody on this machine; it is installed into a folder of its own.",
    instead: "test/integration/cli/package.test.ts",
    words: '"install"',
  },

  // Everything that goes wrong.
  { like: /^npm run chaos(?: -- --purchases 3000 --kills 150)?$/, ...CHAOS, calls: "runChaos" },
  { like: /^npm run chaos -- --thief --purchases 500 --kills 25$/, ...CHAOS, calls: "runsOf" },
  { like: /^npm run chaos -- --rolling 50$/, ...CHAOS, calls: "runRolling" },
  {
    like: /^npm run chaos -- --credits$/,
    ...CHAOS,
    test: "test/chaos/credits.test.ts",
    calls: "runCredits",
  },
  {
    like: /^npm run simulate(?: -- --seeds 210101\.\.243434 --jobs 2)?$/,
    ...SIMULATION,
    calls: "runSeeds",
  },
  { like: /^npm run simulate -- --exhaustive$/, ...SIMULATION, calls: "exploreAll" },
  {
    like: /^npm run simulate -- --credits --count 400$/,
    how: "short",
    test: "test/simulation/credits/credits.test.ts",
    script: "test/simulation/simulate.ts",
    calls: "runCredits",
  },
  {
    like: /^npm run simulate -- --mutants$/,
    ...SIMULATION,
    script: "test/simulation/mutants.ts",
    calls: "tryMutant",
  },
  {
    like: /^npm run siege$/,
    how: "short",
    test: "test/siege/siege.test.ts",
    script: "test/siege/siege.ts",
    calls: "besiege",
  },
  {
    like: /^npm run attack$/,
    how: "short",
    test: "test/attack/attack.test.ts",
    script: "test/attack/attack.ts",
    calls: "runBattery",
  },
  {
    like: /^npm run attack -- --sidecar nginx$/,
    how: "short",
    test: "test/attack/sidecar.test.ts",
    script: "test/attack/attack.ts",
    calls: "runSidecarBattery",
  },
  {
    like: /^npm run attack:mutants$/,
    how: "not run",
    why: "It plays cases against each of more than two hundred mutants; that each still removes what it names is looked at.",
    instead: "test/attack/threats.test.ts",
    words: "findStale",
  },

  // What is measured.
  {
    like: /^npm run prove:fuzz$/,
    how: "not run",
    why: "It is the suite's own tests of random cases with more of them: the same files run in the suite.",
    instead: "test/support/effort.ts",
    words: "npm run prove:fuzz",
  },
  {
    like: /^npm run prove:race$/,
    ...PROOFS,
    script: "test/proxy/keep-alive-race.ts",
    calls: "race",
  },
  { like: /^npm run prove:memory$/, ...PROOFS, script: "test/proxy/memory.ts", calls: "comeAndGo" },
  {
    like: /^npm run prove:uploads$/,
    how: "short",
    test: "test/proxy/uploads.test.ts",
    script: "test/proxy/uploads.ts",
    calls: "missing",
  },
  {
    like: /^coinslot keygen evm -o agent\.key$/,
    how: "test",
    test: "test/integration/cli/keygen.test.ts",
    words: '"keygen", "evm"',
  },
  {
    like: /^coinslot mcp$/,
    how: "test",
    test: "test/support/agents/agent.ts",
    words: '"mcp", ...words',
  },
  {
    like: /^npm run prove:agents$/,
    how: "short",
    test: "test/integration/agents/crowd.test.ts",
    script: "test/agents/agents.ts",
    calls: "runCrowd",
  },
  {
    like: /^npm run prove:goods$/,
    how: "short",
    test: "test/integration/goods-clients.test.ts",
    script: "test/goods/goods.ts",
    calls: "randomCut",
  },
  {
    like: /^npm run prove:prices$/,
    how: "short",
    test: "test/integration/price-agreement.test.ts",
    script: "test/prices/prices.ts",
    calls: "agreementOf",
  },
  {
    like: /^npm run prove:rotation$/,
    how: "short",
    test: "test/integration/rotation.test.ts",
    script: "test/rotation/rotation.ts",
    calls: "changeEveryKey",
  },
  {
    like: /^npm run bench:growth$/,
    how: "test",
    test: "test/integration/ledger/growth.test.ts",
    words: "bench/growth.ts",
  },
  {
    like: /^npm run prove:year$/,
    how: "test",
    test: "test/integration/ledger/growth.test.ts",
    words: "year/year.ts",
  },
  bench("payment-required", '"payment-required"'),
  bench("free-route", '"free-route"'),
  bench("proxy -- paid", '"paid"'),
  bench("proxy -- events", '"events"'),
  bench("proxy -- slow-readers", '"slow-readers"'),
  bench("paid -- --before FOLDER", '"--before"'),
  bench("paid"),
  bench("verify"),
  bench("settle"),
  bench("solana-verify"),
  bench("solana-settle"),
  {
    like: /^npm run bench:sizing(?: -- --write)?$/,
    how: "test",
    test: BENCHES,
    words: "sizing.ts",
  },
  bench("routing"),
  bench("credits"),
  bench("credits-http"),
  bench("discovery"),
  bench("telemetry"),
  bench("page"),
  bench("start-up"),
  bench("griefing-evm"),
  bench("griefing-overdraft"),
  bench("griefing-solana"),
];
