/**
 * A value that must not appear in a log, a dump or an error. It is stored in a private field, which
 * neither `JSON.stringify` nor `util.inspect` can reach; only an explicit {@link Secret.reveal} can.
 */
const HIDDEN = "[secret]";

export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
    Object.freeze(this);
  }

  /** The value itself: call it where the value is used, never where something is described. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return HIDDEN;
  }

  toJSON(): string {
    return HIDDEN;
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return HIDDEN;
  }
}
