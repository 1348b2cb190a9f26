import { loadConfig, formatProblems } from "./config.ts";
const r = await loadConfig(process.argv[2] ?? "", { env: { ...process.env, FACILITATOR_TOKEN:"tok", REMOTE_TOKEN:"rt", BASE_KEY:"0x"+"11".repeat(32), BASE_RPC:"https://rpc.example/v2/abc", BASE_SEPOLIA_KEY:"22".repeat(32), DEMO_PAY_TO:"0x209693Bc6afc0C5328bA36FaF03C514EF312287C", DEMO_FACILITATOR_KEY:"0x"+"33".repeat(32)}, readFile(){throw new Error("x")} });
console.log(formatProblems(r.problems, r.text));
if (r.ok && process.argv[3]) console.dir(r.config, {depth: 9});
