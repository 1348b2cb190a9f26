/**
 * Whether a backend gives what is priced under other paths that are free. It is asked as the gateway would ask, with
 * GET, past the gateway and so unpaid: for each priced path, for a path that there is not, and for the aliases that
 * common backends know.
 */
import { randomUUID } from "node:crypto";
import { sitesOf, type Config, type RouteSettings, type Site } from "../../config/config.ts";
import { aliasesOf } from "../../config/routes/path-aliases.ts";
import { DryGateway } from "../dry-gateway.ts";
import { backendQuestion, mayBeAsked } from "./backend-question.ts";
import { ok, warn, type Check, type DoctorFinding } from "./finding.ts";
import { ask, type HttpAnswer } from "./http-probe.ts";

const SUBJECT = "aliases of priced paths";
/** Requests at most, all together, for the routes in the order of the file: it is a backend at work that is asked. */
const MAX_QUESTIONS = 120;
/** Of each answer so much is read, bytes. */
const MAX_READ_BYTES = 64 * 1024;
/** And so much compared, characters: what is there whatever the packets. */
const COMPARED = MAX_READ_BYTES / 4;

/** Nothing where all that is not priced is denied, or where the backend is another proxy's. */
export function aliasChecks(config: Config): readonly Check[] {
  return sitesOf(config).flatMap(siteChecks);
}

function siteChecks(config: Site<Config>): readonly Check[] {
  const isFree = config.routes.some(({ action }) => action.kind === "free");
  if (config.sidecar !== null || (config.unmatched !== "free" && !isFree)) return [];
  const sold = config.routes.filter(mayBeAsked);
  if (sold.length === 0) return [];
  const run: Check["run"] = (signal) => new Search(config, signal).run(sold);
  const name = config.site === "" ? SUBJECT : `${SUBJECT} of ${config.site}`;
  return [{ name, section: "upstreams", run }];
}

class Search {
  readonly #config: Config;
  readonly #dry: DryGateway;
  readonly #signal: AbortSignal;
  #questions = 0;
  /** The limit or the time has come: what was not asked says nothing. */
  #isOver = false;

  constructor(config: Config, signal: AbortSignal) {
    this.#config = config;
    this.#dry = new DryGateway(config);
    this.#signal = signal;
  }

  async run(routes: readonly RouteSettings[]): Promise<readonly DoctorFinding[]> {
    const findings: DoctorFinding[] = [];
    let judged = 0;
    for (const route of routes) {
      const found = await this.#lookAt(route);
      if (found === null) continue;
      judged += 1;
      const [first, ...others] = found;
      if (first !== undefined) {
        const more = others.length === 0 ? "" : `, and so to ${others.join(", ")}`;
        const message = `the backend answers 2xx to GET ${first}, which is free, as to what ${route.key} sells${more}`;
        const [path = ""] = first.split("?");
        const fix = `write unmatched: deny and list what is free, or close each: "${path}": deny`;
        findings.push(warn(`${SUBJECT} ${route.pattern}`, message, fix));
      }
    }
    if (findings.length > 0) return findings;
    const said = `of ${judged} of ${routes.length} priced paths no free alias was found`;
    const left =
      judged < routes.length
        ? "; the others did not answer 2xx, or not in time, or were too many"
        : "";
    return [ok(SUBJECT, said + left)];
  }

  /** Aliases that give what the route sells; null where nothing can be said. */
  async #lookAt({ pattern, action, tool }: RouteSettings): Promise<readonly string[] | null> {
    if (action.kind !== "priced" || tool !== undefined) return null;
    const nothing = `/${randomUUID()}`;
    const [sold, none] = await Promise.all([
      this.#ask(action.upstream, pattern),
      this.#ask(action.upstream, nothing),
    ]);
    if (sold === null || none === null || !isGood(sold)) return null;
    // Whoever answers everything alike, as a page of one application does, sells nothing under that path.
    if (isGood(none) && isSame(none, sold)) return null;
    const build = /"buildId":"([\w-]{1,64})"/.exec(sold.text)?.[1];
    const asked = aliasesOf(pattern, build).map(async (alias) => {
      const upstream = this.#freeAt(alias);
      const answer = upstream === null ? null : await this.#ask(upstream, alias);
      if (answer === null || !isGood(answer)) return [];
      return !isGood(none) || isSame(answer, sold) ? [alias] : [];
    });
    const found = (await Promise.all(asked)).flat();
    return found.length === 0 && this.#isOver ? null : found;
  }

  /** Which upstream gets that for nothing; null: none does. */
  #freeAt(target: string): string | null {
    const { decision, route } = this.#dry.ask({ method: "GET", target });
    if (decision.kind !== "free") return null;
    return route?.action.kind === "free" ? route.action.upstream : this.#config.defaultUpstream;
  }

  /** Null where it does not answer in time, or has been asked enough. */
  async #ask(name: string, path: string): Promise<HttpAnswer | null> {
    const question = backendQuestion(this.#config, name, path);
    if (question === null) return null;
    this.#isOver ||= this.#questions >= MAX_QUESTIONS || this.#signal.aborted;
    if (this.#isOver) return null;
    this.#questions += 1;
    const asked = ask({ ...question, maxBytes: MAX_READ_BYTES }, this.#signal);
    return asked.catch(() => {
      this.#isOver ||= this.#signal.aborted;
      return null;
    });
  }
}

function isGood({ status }: HttpAnswer): boolean {
  return status >= 200 && status < 300;
}

function isSame(left: HttpAnswer, right: HttpAnswer): boolean {
  return left.text.slice(0, COMPARED) === right.text.slice(0, COMPARED);
}
