/** A list of tools on its way to a client: without those that are not to be had, and with what the others cost. */
import { isRecord } from "../../x402/json.ts";
import { PRICE_META } from "../../x402/mcp.ts";
import type { ToolTable } from "./tool-table.ts";

export class ToolList {
  readonly #table: ToolTable;

  constructor(table: ToolTable) {
    this.#table = table;
  }

  /** Whether there may be anything that it leaves out. */
  get hides(): boolean {
    return this.#table.hides;
  }

  /** The same text where nothing is to be changed: of anything but a list of tools. */
  tell(text: string, message: Readonly<Record<string, unknown>>): string {
    const { result } = message;
    if (!isRecord(result)) return text;
    const { tools } = result;
    if (!Array.isArray(tools)) return text;
    const told = tools.flatMap((tool: unknown) => this.#tool(tool));
    return JSON.stringify({ ...message, result: { ...result, tools: told } });
  }

  #tool(tool: unknown): readonly unknown[] {
    if (!isRecord(tool) || typeof tool["name"] !== "string") return [];
    const found = this.#table.find(tool["name"]);
    if (found === undefined || found === "unclear" || found.isDenied) return [];
    const { price } = found;
    if (price === null || !this.#table.telling) return [tool];
    const { description, _meta: meta } = tool;
    const said = typeof description === "string" ? `${description} ` : "";
    const told = isRecord(meta) ? meta : {};
    return [
      {
        ...tool,
        description: `${said}(costs ${price} a call, paid by x402)`,
        _meta: { ...told, [PRICE_META]: price },
      },
    ];
  }
}
