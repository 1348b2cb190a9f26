/** That object with some of its members in place of its own. */
export function over<Whole extends object>(whole: Whole, instead: Partial<Whole>): Whole {
  return new Proxy(whole, {
    get(target, name) {
      const member: unknown = Reflect.get(name in instead ? instead : target, name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}
