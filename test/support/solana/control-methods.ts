/**
 * The `svm_` methods: what the handle of a node can do, over JSON-RPC, for a node in another process.
 * Amounts and lamports are decimal text or numbers; bytes are base64.
 */
import type { Cluster } from "./cluster.ts";
import type { Faults, Injection } from "./faults.ts";
import type { ControlMethod, Dispatch } from "./rpc-dispatch.ts";
import { invalidParams } from "./rpc-error.ts";
import type { WebsocketMode } from "./rpc-server.ts";
import type { MintOptions, SetUp } from "./set-up.ts";

export interface Controlled {
  readonly cluster: Cluster;
  readonly faults: Faults;
  readonly setUp: SetUp;
  /** Made after these methods, which it answers. */
  readonly dispatch: () => Dispatch;
  readonly setSlotMs: (ms: number | null) => void;
  readonly setWebsocket: (mode: WebsocketMode) => void;
}

export function controlMethods(node: Controlled): ReadonlyMap<string, ControlMethod> {
  return new Map(
    Object.entries({ ...timeMethods(node), ...faultMethods(node), ...setUpMethods(node) }),
  );
}

type Methods = Readonly<Record<string, ControlMethod>>;

function timeMethods({ cluster, setSlotMs }: Controlled): Methods {
  return {
    /** [slots = 1] → the newest slot. */
    svm_tick([slots = 1]) {
      cluster.tick(Number(slots));
      return cluster.tip.slot;
    },
    /** [milliseconds, or null for none] */
    svm_setSlotMs: ([ms]) => setSlotMs(ms === null ? null : Number(ms)),
  };
}

function faultMethods({ faults, dispatch, setWebsocket }: Controlled): Methods {
  const hits = new Map<number, () => number>();
  return {
    /** [an `Injection`] → its number. */
    svm_inject([injection]) {
      if (!isInjection(injection)) throw invalidParams("Invalid params: not an injection.");
      const active = faults.inject(injection);
      hits.set(active.id, () => active.hits);
      return active.id;
    },
    /** [number] ends that one, [] ends all. */
    svm_lift: ([id]) => faults.lift(id === undefined ? undefined : Number(id)),
    /** [number] → how many calls have met it. */
    svm_hits: ([id]) => hits.get(Number(id))?.() ?? 0,
    svm_setWebsocket([mode]) {
      if (!isWebsocketMode(mode)) throw invalidParams("Invalid params: not a websocket mode.");
      setWebsocket(mode);
    },
    /** → calls of each method since the last reset. */
    svm_calls: () => dispatch().calls,
    svm_resetCalls: () => dispatch().resetCalls(),
    /** → what `sendTransaction` was given since the last reset. */
    svm_sent: () => dispatch().sent,
  };
}

function setUpMethods({ setUp }: Controlled): Methods {
  return {
    svm_fundSol: ([at, lamports]) => setUp.fundSol(String(at), amount(lamports)),
    svm_setLamports: ([at, lamports]) => setUp.setLamports(String(at), amount(lamports)),
    svm_lamportsOf: ([at]) => String(setUp.lamportsOf(String(at))),
    /** [mint, owner, amount] → the token account. */
    svm_fundToken: ([mint, owner, atomic]) =>
      setUp.fundToken({ mint: String(mint), owner: String(owner), amount: amount(atomic) }),
    /** [owner, mint] → atomic units, as text. */
    svm_tokenBalanceOf: async ([owner, mint]) =>
      String(await setUp.tokenBalanceOf(String(owner), String(mint))),
    svm_associatedTokenAccount: ([owner, mint]) =>
      setUp.associatedTokenAccount(String(owner), String(mint)),
    /** [`MintOptions`, without `other` extensions] → the mint. */
    svm_createMint([options]) {
      if (!isMintOptions(options)) throw invalidParams("Invalid params: not a mint's options.");
      return setUp.createMint(withBigFee(options));
    },
    svm_approve: ([source, delegate, atomic]) =>
      setUp.approve(String(source), String(delegate), amount(atomic)),
    svm_freeze: ([source, isFrozen = true]) => setUp.freeze(String(source), isFrozen === true),
    /** [addresses] → the table. */
    svm_lookupTable([addresses]) {
      if (!Array.isArray(addresses)) throw invalidParams("Invalid params: not addresses.");
      return setUp.lookupTable(addresses.map(String));
    },
    /** [address, lamports, data, owner, executable = false] */
    svm_setAccount([at, lamports, data, owner, executable = false]) {
      setUp.setAccount(String(at), {
        lamports: amount(lamports),
        data: bytes(data),
        owner: String(owner),
        executable: executable === true,
      });
    },
    svm_loadProgram: ([at, elf]) => setUp.loadProgram(String(at), bytes(elf)),
    svm_loadLighthouseStandIn: () => setUp.loadLighthouseStandIn(),
  };
}

function amount(value: unknown): bigint {
  if (typeof value === "number" || (typeof value === "string" && /^\d+$/.test(value))) {
    return BigInt(value);
  }
  throw invalidParams("Invalid params: not an amount.");
}

function bytes(value: unknown): Uint8Array {
  if (typeof value !== "string") throw invalidParams("Invalid params: not base64.");
  return new Uint8Array(Buffer.from(value, "base64"));
}

const FAULTS = ["lose", "drop", "status", "result", "error", "hold", "delayMs", "lagSlots"];

function isInjection(value: unknown): value is Injection {
  return typeof value === "object" && value !== null && FAULTS.some((fault) => fault in value);
}

function isWebsocketMode(value: unknown): value is WebsocketMode {
  return ["normal", "silent", "closed", "refused"].includes(String(value));
}

function isMintOptions(value: unknown): value is MintOptions {
  return typeof value === "object" && value !== null && "decimals" in value && "program" in value;
}

/** JSON has no large numbers: the fee's maximum comes as text. */
function withBigFee(options: MintOptions): MintOptions {
  const fee = options.extensions?.transferFee;
  if (fee?.maximumFee === undefined) return options;
  const transferFee = { ...fee, maximumFee: amount(fee.maximumFee) };
  return { ...options, extensions: { ...options.extensions, transferFee } };
}
