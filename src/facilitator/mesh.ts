/**
 * Several facilitators as one: networks that this process settles itself go to the embedded one, the
 * rest to the remote ones in their configured order. A verification may fail over freely; a settlement
 * moves on only where the one before it certainly saw nothing.
 */
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

export class FacilitatorMesh implements Facilitator {
  readonly #embedded: EmbeddedFacilitator | undefined;
  readonly #embeddedNetworks: ReadonlySet<string>;
  readonly #remotes: readonly RemoteFacilitator[];

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

  verify(request: FacilitatorRequest, signal: AbortSignal): Promise<VerifyResponse> {
    const here = this.#here(request);
    if (here !== undefined) return here.verify(request, signal);
    return this.#firstRemote((remote) => remote.verify(request, signal), anyFault);
  }

  settle(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse> {
    const here = this.#here(request);
    if (here !== undefined) return here.settle(request, options);
    return this.#firstRemote((remote) => remote.settle(request, options), nothingSent);
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
    return { kinds: [...kinds.values()] };
  }

  #here(request: FacilitatorRequest): EmbeddedFacilitator | undefined {
    return this.isRemote(request.paymentRequirements.network) ? undefined : this.#embedded;
  }

  async #firstRemote<Answer>(
    ask: (remote: RemoteFacilitator) => Promise<Answer>,
    mayMoveOn: (fault: FacilitatorFault) => boolean,
  ): Promise<Answer> {
    let last: FacilitatorFault | undefined;
    for (const remote of this.#remotes) {
      try {
        return await ask(remote);
      } catch (cause) {
        if (!(cause instanceof FacilitatorFault) || !mayMoveOn(cause)) throw cause;
        last = cause;
      }
    }
    const code = "unexpected_verify_error";
    throw last ?? new FacilitatorFault("unavailable", code, "no facilitator serves this network");
  }
}

function anyFault(): boolean {
  return true;
}

function nothingSent(fault: FacilitatorFault): boolean {
  return fault.kind === "unreachable";
}
