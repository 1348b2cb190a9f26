/** How `npm run build` makes one folder of JavaScript of the sources and the packages that they use. */
import { defineConfig } from "rolldown";
import { notices } from "./notices.ts";
import { standIns } from "./stand-ins.ts";

/** Copied as they are by the script `build:addon`: a native library cannot be bundled. */
const COPIED = ["node_modules/secp256k1", "node_modules/node-gyp-build"];

export default defineConfig({
  input: "src/main.ts",
  platform: "node",
  external: ["secp256k1/bindings.js"],
  plugins: [standIns(), notices(COPIED)],
  output: { dir: "dist", format: "esm" },
});
