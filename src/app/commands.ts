/** Configured commands -> what they are started as. */
import type { Config } from "../config/config.ts";
import type { CommandSettings } from "../stdio/commands.ts";

export function commandsOf(
  config: Pick<Config, "upstreams" | "publicUrl" | "sites" | "cors">,
): readonly CommandSettings[] {
  const origins = originsOf(config);
  return config.upstreams.flatMap(({ name, command }) => {
    if (command === null) return [];
    const { run, env, ...limits } = command;
    const revealed = env.map((each) => [each.name, each.value.reveal()]);
    return [{ ...limits, name, origins, command: run, env: Object.fromEntries(revealed) }];
  });
}

/** Our own, and those that `cors` lets read. */
function originsOf({
  publicUrl,
  sites,
  cors,
}: Pick<Config, "publicUrl" | "sites" | "cors">): CommandSettings["origins"] {
  const policies = [cors, ...sites.map((site) => site.cors)];
  if (policies.includes("any")) return "any";
  const own = [publicUrl, ...sites.map((site) => site.publicUrl)];
  return new Set([
    ...own.flatMap((url) => (url === null ? [] : [new URL(url).origin])),
    ...policies.flatMap((each) => (typeof each === "string" ? [] : each)),
  ]);
}
