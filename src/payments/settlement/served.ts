/** What settles one network: its judgement, its engine, and what they share. */
import type { Mechanism } from "../../mechanism/mechanism.ts";
import { FailureBudget } from "./failure-budget.ts";
import { Judgement } from "./judgement.ts";
import { Places } from "./places.ts";
import { RevertedGas } from "./reverted-gas.ts";
import { SettlementEngine, type EngineOptions } from "./settlement-engine.ts";

export interface Served {
  readonly mechanism: Mechanism;
  readonly judgement: Judgement;
  readonly engine: SettlementEngine;
}

type ServeOptions = Omit<EngineOptions, "mechanism" | "judgement" | "budget" | "places">;

export function serve(mechanism: Mechanism, options: ServeOptions): Served {
  const { gate, time } = options;
  const budget = new FailureBudget(time);
  const revertedGas = new RevertedGas(time);
  const judgement = new Judgement({ mechanism, gate, budget, revertedGas, time });
  const { network, rules } = mechanism;
  const places = new Places({ ...options, network, rules, budget, revertedGas });
  const engine = new SettlementEngine({ ...options, mechanism, judgement, budget, places });
  return { mechanism, judgement, engine };
}
