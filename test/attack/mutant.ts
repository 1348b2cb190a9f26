/** The gateway with one guard of its front door taken away, each in its own place. */
import type { Edit } from "../support/mutated-copy.ts";

export interface Mutant extends Edit {
  readonly name: string;
  /** The threat that its guard is against. */
  readonly cites: string;
  /** A second guard against the same, which would hide that the first is gone. */
  readonly also?: Edit;
  /** The topics whose cases are to catch it; none: something else has to. */
  readonly topics?: readonly string[];
  /** The properties of the canonical path are to catch it. */
  readonly isFuzzed?: true;
  /** A test file that is to catch it: of what no client ever sees. */
  readonly unit?: string;
}
