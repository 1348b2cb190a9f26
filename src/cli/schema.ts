/** `coinslot schema`: the JSON Schema of configuration files, for editors. */
import { jsonSchemaText } from "../config/reading/json-schema.ts";

/** Writes it to stdout; it depends on this version alone. */
export function schema(): number {
  process.stdout.write(jsonSchemaText());
  return 0;
}
