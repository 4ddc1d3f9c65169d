// Runs the steps of a client program and prints {versions, steps} as JSON, as tests/python/steps.py does.
// usage: node PROGRAM.mjs BASE_URL API_KEY
import { readFileSync } from "node:fs";

export const [baseURL, apiKey] = process.argv.slice(2);
export const question = "How do I use Zephyr from Kotlin?";
export const instructions = "Answer in one line.";
export const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const gpt = "gpt-5";
export const claude = "claude-sonnet-4-6";
export const weather = (city) => `21 degrees in ${city}`;
export const citySchema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

const versionOf = (name) =>
  JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), "utf8")).version;

export async function run(packages, steps) {
  const results = {};
  for (const [name, step] of Object.entries(steps)) {
    try {
      results[name] = await step();
    } catch (error) {
      results[name] = { failed: String(error?.stack ?? error) };
    }
  }
  const versions = Object.fromEntries(packages.map((name) => [name, versionOf(name)]));
  console.log(JSON.stringify({ versions, steps: results }));
}
