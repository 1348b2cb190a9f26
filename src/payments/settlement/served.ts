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
  readonly known: KnownPayers;
}

/** What payers have cost us, which no other configuration makes forgotten. */
interface KnownPayers {
  readonly budget: FailureBudget;
  readonly revertedGas: RevertedGas;
}

type ServeOptions = Omit<EngineOptions, "mechanism" | "judgement" | "budget" | "places">;

/** @param before who served the network until now */
export function serve(mechanism: Mechanism, options: ServeOptions, before?: Served): Served {
  const { gate, time } = options;
  const known = before?.known ?? {
    budget: new FailureBudget(time),
    revertedGas: new RevertedGas(time),
  };
  const judgement = new Judgement({ mechanism, gate, ...known, time });
  const { network, rules } = mechanism;
  const places = new Places({ ...options, network, rules, ...known });
  const { budget } = known;
  const engine = new SettlementEngine({ ...options, mechanism, judgement, budget, places });
  return { mechanism, judgement, engine, known };
}
