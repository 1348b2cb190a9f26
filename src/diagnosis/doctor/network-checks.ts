/** Each chain that is settled on or looked at: its endpoints, its tokens, our accounts there, and who is paid. */
import type { Config, EmbeddedNetwork, ObservedNetwork } from "../../config/config.ts";
import type { Finding as ChainFinding, Mechanism } from "../../mechanism/mechanism.ts";
import { hasCode } from "../../mechanism/evm/probe.ts";
import { openRpc, type Rpc } from "../../mechanism/rpc.ts";
import { networkOf, type NetworkName } from "../../x402/network.ts";
import { createMechanisms, type Surroundings } from "../../app/chains.ts";
import { findLosses } from "../../app/gas-costs.ts";
import { readBalances } from "../../app/gauges.ts";
import { describeWallets } from "../../app/wallets.ts";
import { checkFeePayers } from "./fee-payer-checks.ts";
import { fail, ok, warn, type Check, type DoctorFinding } from "./finding.ts";
import { checkHolders } from "./holder-check.ts";
import { checkEndpoints, type RpcEndpoint } from "./rpc-check.ts";
import { checkToken } from "./token-check.ts";
import { messageOf } from "../../x402/result.ts";

export function networkChecks(config: Config, at: Surroundings): readonly Check[] {
  const { embedded, observed } = config.facilitator;
  const own = embedded.map((settings) =>
    check(settings, async (signal) => {
      const endpoints = await checkEndpoints(settings, signal);
      const rpc = endpoints.filter(({ isRight }) => isRight).map(({ endpoint }) => endpoint);
      const [first] = rpc;
      const findings = endpoints.map(({ finding }) => finding);
      if (first === undefined) return findings;
      // Those that do not serve the network were told of; what follows is about the chain.
      const facilitator = { ...config.facilitator, embedded: [{ ...settings, rpc }] };
      const [mechanism] = await createMechanisms({ ...config, facilitator }, at);
      if (mechanism === undefined) return findings;
      try {
        const looked = await lookAt({ config, settings, mechanism, at }, first, signal);
        return [...findings, ...looked];
      } finally {
        await mechanism.close();
      }
    }),
  );
  const seen = observed.map((settings) =>
    check(settings, async (signal) => {
      const endpoints = await checkEndpoints(settings, signal);
      const right = endpoints.find(({ isRight }) => isRight);
      const findings = endpoints.map(({ finding }) => finding);
      if (right === undefined) return findings;
      const { network } = settings;
      return [
        ...findings,
        ...(await checkPayees(config, network, right.endpoint, signal)),
        ...(await withRpc(right.endpoint, (rpc) => checkHolders(config, network, { rpc, signal }))),
      ];
    }),
  );
  return [...own, ...seen];
}

function check({ network }: ObservedNetwork | EmbeddedNetwork, run: Check["run"]): Check {
  return { name: network, section: "networks", run };
}

interface Subject {
  readonly config: Config;
  readonly settings: EmbeddedNetwork;
  readonly mechanism: Mechanism;
  readonly at: Surroundings;
}

async function lookAt(
  subject: Subject,
  endpoint: RpcEndpoint,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const { config, settings, mechanism, at } = subject;
  const { network } = settings;
  let probed: readonly ChainFinding[];
  try {
    probed = await mechanism.probe(signal);
  } catch (cause) {
    const fix = "payments on it wait until its checks pass; see to its RPC endpoints";
    return [fail(network, `cannot be checked: ${messageOf(cause)}`, fix)];
  }
  const balances = await readBalances(mechanism, at, signal);
  const wallets = describeWallets(config, [mechanism], new Map([[network, balances]]));
  const [wallet] = balances;
  const losses = wallet === undefined ? [] : findLosses(config, network, wallet);
  const tokens = await checkTokens(subject, endpoint, probed, signal);
  const payees = await checkPayees(config, network, endpoint, signal);
  const held = await withRpc(endpoint, (rpc) => checkHolders(config, network, { rpc, signal }));
  const { accounts } = mechanism;
  const shared = await checkFeePayers(config, settings, { accounts, endpoint }, signal);
  const own = wallets.filter((each) => each.network === network);
  const told = new Set(own.flatMap(({ address }) => about(probed, address)));
  const rest = probed.filter(
    (each) => !told.has(each) && !settings.assets.some((asset) => isAbout(each, asset.address)),
  );
  return [
    ...tokens,
    ...own.map(({ address, source, funds }) => {
      const title = `${network} account ${address}`;
      return judgeWallet(
        title,
        `key from ${source}; ${funds ?? "not read"}`,
        about(probed, address),
      );
    }),
    ...shared,
    ...payees,
    ...held,
    ...rest.map((each) => describeRest(network, each)),
    ...losses.map(({ message }) =>
      warn(network, message, "raise that price, or sell it elsewhere"),
    ),
  ];
}

function isAbout({ message }: ChainFinding, address: string): boolean {
  return message.includes(`at ${address} `);
}

function about(findings: readonly ChainFinding[], address: string): readonly ChainFinding[] {
  return findings.filter(({ message }) => message.includes(`: ${address} `));
}

async function checkTokens(
  { settings }: Subject,
  endpoint: RpcEndpoint,
  probed: readonly ChainFinding[],
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const { network, assets } = settings;
  const found = assets.map(async (asset): Promise<readonly DoctorFinding[]> => {
    const subject = `${network} token ${asset.symbol}`;
    const errors = probed
      .filter((each) => isAbout(each, asset.address))
      .map(({ message }) => withoutNetwork(network, message));
    if ("eip712" in asset) {
      return withRpc(endpoint, (rpc) => checkToken({ subject, asset, rpc, errors }, signal));
    }
    const fix = "see that the address is that of the mint on this cluster";
    if (errors.length > 0) return errors.map((message) => fail(subject, message, fix));
    return [ok(subject, `${asset.address} has ${asset.decimals} decimals`)];
  });
  return (await Promise.all(found)).flat();
}

function judgeWallet(
  subject: string,
  message: string,
  troubles: readonly ChainFinding[],
): DoctorFinding {
  const [trouble] = troubles;
  if (trouble === undefined) return ok(subject, message);
  const fix = "send it some of the network's currency: without it nothing can be settled";
  const judge = trouble.level === "error" ? fail : warn;
  // The subject names network and account already.
  return judge(subject, trouble.message.replace(/^[\w-]+: \w+ /, ""), fix);
}

/** The subject names it already. */
function withoutNetwork(network: NetworkName, message: string): string {
  return message.startsWith(`${network}: `) ? message.slice(network.length + 2) : message;
}

/** `…; create it with: COMMAND` of a Solana payee is its own fix. */
function describeRest(network: NetworkName, { level, message }: ChainFinding): DoctorFinding {
  const judge = level === "error" ? fail : warn;
  const [said = "", command] = withoutNetwork(network, message).split("; create it with: ", 2);
  if (command !== undefined) return judge(network, said, command);
  const fix = said.startsWith("clock skew")
    ? "set this machine's clock (NTP)"
    : said.includes("Multicall3")
      ? "name an endpoint of the real network: every supported one has it"
      : "see to it before the gateway starts";
  return judge(network, said, fix);
}

/** On Solana the mechanism looks at them itself, and at their token accounts. */
async function checkPayees(
  config: Config,
  network: NetworkName,
  endpoint: RpcEndpoint,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  if (networkOf(network).kind !== "evm") return [];
  const offers = config.routes.flatMap(({ action }) =>
    action.kind === "priced" ? action.offers : [],
  );
  const payees = new Set(
    offers.filter((each) => each.network === network).map(({ payTo }) => payTo),
  );
  return withRpc(endpoint, (rpc) =>
    Promise.all(
      [...payees].map(async (payee) => {
        const subject = `${network} payTo ${payee}`;
        if (!(await hasCode(rpc, payee, signal))) return ok(subject, "is a plain account");
        const message = "is a contract on this network";
        const fix =
          "see that it can pass on the token that it gets: a wallet such as Safe can, many cannot";
        return warn(subject, message, fix);
      }),
    ),
  );
}

async function withRpc<Value>(
  endpoint: RpcEndpoint,
  work: (rpc: Rpc) => Promise<Value>,
): Promise<Value> {
  const rpc = openRpc(endpoint.url.reveal());
  try {
    return await work(rpc);
  } finally {
    await rpc.close();
  }
}
