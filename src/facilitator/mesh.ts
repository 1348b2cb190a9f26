/**
 * Several facilitators as one: networks that this process settles itself go to the embedded one, the
 * rest to the remote ones in their configured order. A verification may fail over freely; a settlement
 * moves on only where the one before it certainly saw nothing, and one whose outcome is unknown is
 * asked for again where it was left, even if another facilitator stands before that one.
 */
import { compareSupported, isNetworkName } from "../x402/network.ts";
import type {
  FacilitatorRequest,
  SettleResponse,
  SupportedKind,
  SupportedResponse,
  VerifyResponse,
} from "../x402/x402.ts";
import type { EmbeddedFacilitator } from "./embedded.ts";
import { FacilitatorFault, type Facilitator, type SettleOptions } from "./facilitator.ts";
import type { RemoteFacilitator } from "./remote.ts";

/** Settlements of unknown outcome whose facilitator is remembered; beyond it the oldest is forgotten. */
const MAX_UNRESOLVED = 10_000;

export class FacilitatorMesh implements Facilitator {
  readonly #embedded: EmbeddedFacilitator | undefined;
  readonly #embeddedNetworks: ReadonlySet<string>;
  readonly #remotes: readonly RemoteFacilitator[];
  /** By idempotency key: who may have settled the payment. Lives as long as the process. */
  readonly #unresolved = new Map<string, RemoteFacilitator>();

  constructor(embedded: EmbeddedFacilitator | undefined, remotes: readonly RemoteFacilitator[]) {
    this.#embedded = embedded;
    this.#embeddedNetworks = new Set(embedded?.networks);
    this.#remotes = remotes;
  }

  isRemote(network: string): boolean {
    return !this.#embeddedNetworks.has(network);
  }

  precheck(request: FacilitatorRequest): VerifyResponse | undefined {
    return this.#here(request)?.precheck(request);
  }

  async verify(request: FacilitatorRequest, signal: AbortSignal): Promise<VerifyResponse> {
    const here = this.#here(request);
    if (here !== undefined) return here.verify(request, signal);
    let fault = nobody("unexpected_verify_error");
    for (const remote of this.#remotes) {
      try {
        return await remote.verify(request, signal);
      } catch (cause) {
        if (!(cause instanceof FacilitatorFault)) throw cause;
        fault = cause;
      }
    }
    throw fault;
  }

  async settle(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse> {
    const here = this.#here(request);
    if (here !== undefined) return here.settle(request, options);
    const asked = this.#unresolved.get(options.idempotencyKey ?? "");
    if (asked !== undefined) return this.#settleAt(asked, request, options);
    let fault = nobody("unexpected_settle_error");
    for (const remote of this.#remotes) {
      try {
        return await this.#settleAt(remote, request, options);
      } catch (cause) {
        if (!(cause instanceof FacilitatorFault) || cause.kind !== "unreachable") throw cause;
        fault = cause;
      }
    }
    throw fault;
  }

  async supported(signal: AbortSignal): Promise<SupportedResponse> {
    const own = (await this.#embedded?.supported())?.kinds ?? [];
    const kinds = new Map<string, SupportedKind>(own.map((kind) => [kind.network, kind]));
    for (const remote of this.#remotes) {
      const theirs = await remote.supported(signal);
      for (const kind of theirs.kinds) {
        if (!kinds.has(kind.network)) kinds.set(kind.network, kind);
      }
    }
    return { kinds: [...kinds.values()].sort(inProtocolOrder) };
  }

  #here(request: FacilitatorRequest): EmbeddedFacilitator | undefined {
    return this.isRemote(request.paymentRequirements.network) ? undefined : this.#embedded;
  }

  async #settleAt(
    remote: RemoteFacilitator,
    request: FacilitatorRequest,
    options: SettleOptions,
  ): Promise<SettleResponse> {
    const { idempotencyKey } = options;
    if (idempotencyKey === undefined) return remote.settle(request, options);
    try {
      const response = await remote.settle(request, options);
      this.#unresolved.delete(idempotencyKey);
      return response;
    } catch (cause) {
      const known = cause instanceof FacilitatorFault && cause.kind !== "unknown";
      if (!known) this.#remember(idempotencyKey, remote);
      // Certain of this attempt only: the one before it may have settled the payment.
      else if (this.#unresolved.has(idempotencyKey)) throw stillUnknown(cause);
      throw cause;
    }
  }

  #remember(idempotencyKey: string, remote: RemoteFacilitator): void {
    const [oldest] = this.#unresolved.keys();
    if (this.#unresolved.size >= MAX_UNRESOLVED && oldest !== undefined) {
      this.#unresolved.delete(oldest);
    }
    this.#unresolved.set(idempotencyKey, remote);
  }
}

function nobody(code: FacilitatorFault["code"]): FacilitatorFault {
  return new FacilitatorFault("unavailable", code, "no facilitator serves this network");
}

function stillUnknown(cause: FacilitatorFault): FacilitatorFault {
  return new FacilitatorFault("unknown", cause.code, cause.message, { cause });
}

/** Networks that are not the protocol's come last, in the order in which they were told. */
function inProtocolOrder(left: SupportedKind, right: SupportedKind): number {
  if (!isNetworkName(left.network)) return isNetworkName(right.network) ? 1 : 0;
  return isNetworkName(right.network) ? compareSupported(left.network, right.network) : -1;
}
