/** The money path with one promise broken, each in its own way. */
export interface Mutant {
  readonly name: string;
  readonly changes: readonly {
    readonly file: string;
    /** Must be there once. */
    readonly find: string;
    readonly put: string;
  }[];
  /** A test file that is to catch it, where hardly any world by chance leads there. */
  readonly unit?: string;
}
