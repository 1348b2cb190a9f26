/**
 * Requests through the whole gateway before a backend that closes its connections just as they are used
 * again. Ends with 1 when one of them is answered with anything but 200.
 */
import { Proving, race } from "./proofs.ts";

const REQUESTS = 100_000;

await using proving = await Proving.start();
const started = performance.now();
const { statuses, raced } = await race(proving, REQUESTS);
const seconds = (performance.now() - started) / 1000;
const told = [...statuses].map(
  ([status, count]) => `${count} of ${status === 0 ? "none" : status}`,
);
console.log(`${REQUESTS} requests in ${seconds.toFixed(1)} s, answers: ${told.join(", ")}`);
console.log(`${raced} of them came on a connection that the backend had closed`);
process.exitCode = statuses.get(200) === REQUESTS && raced > 0 ? 0 : 1;
