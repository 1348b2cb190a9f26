/**
 * The tools of one site, as the gateway knows them. The SDK that speaks to clients is loaded with the first message:
 * most files have no tools, and those that have some start no later for it.
 */
import type { AskCall, ToolMessage, ToolService } from "../gateway/calls/tool-service.ts";
import { siteTools, type ServedTerms, type SiteTools } from "./site-tools.ts";

/** Made when somebody asks, and once. */
export function toolService(terms: ServedTerms): ToolService {
  let site: Promise<SiteTools> | undefined;
  return {
    answer: async (message: ToolMessage, ask: AskCall) => {
      const { answerMessage } = await import("./mcp-server.ts");
      site ??= siteTools(terms);
      return answerMessage(await site, message, ask);
    },
  };
}
