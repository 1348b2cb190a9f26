/** A shop whose backend tells what it was asked for. */
import type { RequestListener } from "node:http";
import { openShop, type Shop, type ShopOptions } from "./shop.ts";
import { backend } from "./stage.ts";

export interface Stage extends Shop {
  /** Method and target of each request that reached the backend. */
  readonly asked: string[];
}

/** A shop before a backend that does so. */
export async function shopOf(handler: RequestListener, options: ShopOptions = {}): Promise<Stage> {
  const asked: string[] = [];
  const origin = await backend((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    handler(request, response);
  });
  return { ...(await openShop(origin, options)), asked };
}

export const settledOf = ({ facilitator }: Shop): number => facilitator.settled.length;
