/** What the battery prints: the versions, counts by topic and kind of finding, and every finding's bytes. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { BatteryReport } from "./battery.ts";
import type { FuzzFailure } from "./canonical-path.ts";
import { KINDS } from "./flaw.ts";
import type { Finding } from "./stage.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Characters of one run of bytes that are printed. */
const MOST_SHOWN = 1_000;

/** Names a finding, the same from run to run. */
export function keyOf({ kind, name, gateway }: Finding): string {
  return `${kind} | ${name} | ${gateway}`;
}

export function describeVersions(): string {
  const names = ["undici", "http-proxy-3", "fast-check", "@foundry-rs/anvil-linux-amd64"];
  const packages = names.map((name) => `${name} ${versionOf(`node_modules/${name}`)}`);
  const { llhttp } = process.versions;
  return [
    `coinslot ${versionOf("")}`,
    `node ${process.version} (llhttp ${llhttp})`,
    ...packages,
  ].join(", ");
}

function versionOf(folder: string): string {
  try {
    const text = readFileSync(join(ROOT, folder, "package.json"), "utf8");
    return String(Object(JSON.parse(text)).version);
  } catch {
    return "not installed";
  }
}

/** One line for each topic: its cases, and its findings by their kind. */
export function describeTallies({ tallies, findings }: BatteryReport): readonly string[] {
  const width = Math.max(...tallies.map(({ topic }) => topic.length), 0);
  const rows = tallies.map(({ topic, cases, runs }) => {
    const own = findings.filter((finding) => finding.topic === topic);
    const counts = describeCounts(own);
    return `  ${topic.padEnd(width)}  ${String(cases).padStart(4)} cases  ${String(runs).padStart(5)} runs  ${counts}`;
  });
  const audits = findings.filter(({ topic }) => topic === "audit");
  const total = tallies.reduce((sum, { cases }) => sum + cases, 0);
  const runs = tallies.reduce((sum, each) => sum + each.runs, 0);
  return [
    ...rows,
    `  ${"at the end".padEnd(width)}  ${" ".repeat(23)} ${describeCounts(audits)}`,
    `  ${"all".padEnd(width)}  ${String(total).padStart(4)} cases  ${String(runs).padStart(5)} runs  ${describeCounts(findings)}`,
  ];
}

function describeCounts(findings: readonly Finding[]): string {
  const counts = KINDS.map((kind) => ({
    kind,
    count: findings.filter((finding) => finding.kind === kind).length,
  })).filter(({ count }) => count > 0);
  return counts.map(({ kind, count }) => `${count} ${kind}`).join(", ") || "no finding";
}

/** A finding with what was sent, what came back and what reached the backend. */
export function describeFinding(finding: Finding): readonly string[] {
  const { kind, topic, name, gateway, detail, sent, received, arrived } = finding;
  return [
    `FOUND ${kind}: ${topic}: ${name} (${gateway}): ${detail}`,
    `  sent      ${show(sent)}`,
    `  received  ${show(received)}`,
    ...arrived.map((bytes) => `  backend   ${show(bytes)}`),
  ];
}

export function describeFuzz({ property, seed, detail }: FuzzFailure): string {
  return `FOUND fuzz: ${property} (seed ${seed}): ${detail}`;
}

export function describeWaiting({ waiting }: BatteryReport): readonly string[] {
  return waiting.map(({ feature, each, findings }) => {
    const now = findings.map(({ detail }) => detail).join("; ") || "as it will be";
    return `  waits for ${feature}: ${each.name}: ${now}`;
  });
}

function show(bytes: string): string {
  const text = JSON.stringify(bytes);
  return text.length <= MOST_SHOWN ? text : `${text.slice(0, MOST_SHOWN)}… (${bytes.length} bytes)`;
}
