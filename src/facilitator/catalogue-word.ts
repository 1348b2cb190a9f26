/**
 * What a facilitator that catalogues traffic says about doing so: the header `EXTENSION-RESPONSES` of its
 * answers, base64 of JSON with a member for each extension, of which `bazaar` is its catalogue. It goes into
 * the log and is remembered, for sellers whose routes do not appear, and changes nothing else; of other extensions goes
 * into the log what was refused. A facilitator of ours
 * that keeps a catalogue of what other gateways sell says it in the same way.
 */
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import { BAZAAR } from "../x402/bazaar.ts";
import { EXTENSION_RESPONSES_HEADER } from "../x402/header.ts";
import { printable } from "../x402/printable.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { memberOf } from "../x402/json.ts";

const HEADER = new RegExp(`^${EXTENSION_RESPONSES_HEADER}$`, "i");
/** What is said of an extension that was not done. */
const REFUSED = /^(?:reject|refus|fail|error|invalid|unsupported)/i;
/** Longest header that is read, characters. */
const MAX_HEADER_LENGTH = 8_192;
/** Longest status and reason that are kept, characters. */
const MAX_STATUS = 40;
const MAX_REASON = 200;
/** Other extensions than the catalogue that are looked at, and the longest name of one that is told. */
const MAX_EXTENSIONS = 8;
const MAX_NAME = 40;
/** The same word is told again after so long, milliseconds. */
const REPEAT_MS = 3_600_000;
/** Different words that are remembered; more than a facilitator that means well has. */
const MAX_WORDS = 64;
/** Requests whose last word is remembered: a pattern route has any number of URLs. */
const MAX_RESOURCES = 1_000;

export interface CatalogueWord {
  /** `success`, `processing`, `rejected`, or whatever it says. */
  readonly status: string;
  readonly reason: string | undefined;
}

/** The last word about one URL. */
export interface HeardWord extends CatalogueWord {
  /** Without its query. */
  readonly resource: string;
  /** Undefined where the requirement does not say. */
  readonly method: string | undefined;
  /** Milliseconds since the epoch. */
  readonly heardMs: number;
}

/** Undefined where there is no such header, or none that can be read. */
export function readCatalogueWord(header: unknown): CatalogueWord | undefined {
  return readWord(memberOf(readHeader(header), BAZAAR));
}

function readHeader(header: unknown): unknown {
  if (typeof header !== "string" || header.length > MAX_HEADER_LENGTH) return undefined;
  try {
    return JSON.parse(Buffer.from(header, "base64").toString("utf8"));
  } catch {
    return undefined;
  }
}

function readWord(said: unknown): CatalogueWord | undefined {
  const status = textOf(memberOf(said, "status"), MAX_STATUS);
  if (status === undefined) return undefined;
  const reasons = ["rejectedReason", "reason", "error"].map((name) => memberOf(said, name));
  return { status, reason: reasons.map((each) => textOf(each, MAX_REASON)).find(Boolean) };
}

interface Refusal extends CatalogueWord {
  readonly extension: string;
}

/** Of the first extensions beside the catalogue those that were refused. */
function readRefusals(json: unknown): readonly Refusal[] {
  if (typeof json !== "object" || json === null) return [];
  const others = Object.keys(json).filter((name) => name !== BAZAAR);
  return others.slice(0, MAX_EXTENSIONS).flatMap((name) => {
    const word = readWord(memberOf(json, name));
    const extension = printable(name.slice(0, MAX_NAME));
    return word !== undefined && REFUSED.test(word.status) ? [{ extension, ...word }] : [];
  });
}

/** The value of the header {@link EXTENSION_RESPONSES_HEADER}. */
export function writeCatalogueWord({ status, reason }: CatalogueWord): string {
  const bazaar = { status, ...(reason === undefined ? {} : { rejectedReason: reason }) };
  return Buffer.from(JSON.stringify({ bazaar })).toString("base64");
}

/** Tells each word once in a while: a facilitator says one with every payment. Remembers the last ones. */
export class CatalogueWords {
  readonly #facilitator: string;
  readonly #logger: Logger;
  readonly #time: Pick<Time, "now">;
  /** When each was told last. */
  readonly #told = new Map<string, number>();
  /** By method and URL, the latest at the end. */
  readonly #heard = new Map<string, HeardWord>();

  constructor(facilitator: string, logger: Logger, time: Pick<Time, "now">) {
    this.#facilitator = facilitator;
    this.#logger = logger;
    this.#time = time;
  }

  /** The last words, the latest at the end. */
  get heard(): readonly HeardWord[] {
    return [...this.#heard.values()];
  }

  /** @param lines raw header lines, `name, value` pairs */
  hear(lines: readonly string[], { resource, outputSchema }: PaymentRequirements): void {
    const at = lines.findIndex((each, index) => index % 2 === 0 && HEADER.test(each));
    if (at === -1) return;
    const json = readHeader(lines[at + 1]);
    for (const refusal of readRefusals(json)) this.#tellRefusal(refusal, resource);
    const word = readWord(memberOf(json, BAZAAR));
    if (word === undefined) return;
    const method = memberOf(memberOf(outputSchema, "input"), "method");
    this.#remember(word, resource, typeof method === "string" ? method : undefined);
    if (!this.#isNews(JSON.stringify(word))) return;
    const facts = { facilitator: this.#facilitator, resource, ...word };
    if (word.status === "rejected") {
      this.#logger.warn(facts, "the facilitator does not list a route");
    } else this.#logger.info(facts, "the facilitator's word about its listing");
  }

  #tellRefusal(refusal: Refusal, resource: string): void {
    if (!this.#isNews(JSON.stringify(refusal))) return;
    const facts = { facilitator: this.#facilitator, resource, ...refusal };
    this.#logger.warn(facts, "the facilitator refused an extension of a payment");
  }

  #remember(word: CatalogueWord, url: string, method: string | undefined): void {
    const [resource = ""] = url.split(/[?#]/);
    const name = `${method ?? ""} ${resource}`;
    this.#heard.delete(name);
    this.#heard.set(name, { ...word, resource, method, heardMs: this.#time.now() });
    const [oldest] = this.#heard.size > MAX_RESOURCES ? this.#heard.keys() : [];
    if (oldest !== undefined) this.#heard.delete(oldest);
  }

  #isNews(word: string): boolean {
    const now = this.#time.now();
    const told = this.#told.get(word);
    if (told !== undefined && now - told < REPEAT_MS) return false;
    if (told === undefined && this.#told.size >= MAX_WORDS) this.#told.clear();
    this.#told.set(word, now);
    return true;
  }
}

function textOf(value: unknown, length: number): string | undefined {
  return typeof value === "string" && value !== "" ? printable(value.slice(0, length)) : undefined;
}
