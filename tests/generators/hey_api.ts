// The steps of test_generated_clients.py with the client that @hey-api/openapi-ts generates.
import { client } from "./generated/client.gen";
import * as api from "./generated/sdk.gen";
import type { Attributes, Filter } from "./generated/types.gen";

type Document = { text: string; modified_at: number; attributes: Attributes };
const [url, key, name, given] = process.argv.slice(2) as [string, string, string, string];
const document: Document = JSON.parse(given);
client.setConfig({ baseUrl: url, auth: key });

async function sources(filter: Filter): Promise<string[]> {
  const body = { query: "What is the pump called?", collections: [name], filter };
  const { data } = await api.search({ body, throwOnError: true });
  return data.data.map((passage) => passage.source);
}

async function main(): Promise<void> {
  const always = { throwOnError: true } as const;
  const created = await api.createCollection({ body: { name }, ...always });
  const pump = { name, key: "pump" };
  const placed = await api.putDocument({ path: pump, body: document, ...always });
  const read = await api.readDocumentByKey({ path: pump, ...always });
  const matching: Filter = {
    type: "and",
    filters: [
      { type: "eq", key: "bar", value: document.attributes["bar"] as number },
      { type: "not", filter: { type: "eq", key: "tested", value: false } },
      { type: "lte", key: "modified_at", value: document.modified_at },
    ],
  };
  const found = await sources(matching);
  const others = await sources({ type: "in", key: "colour", value: ["blue", "green"] });
  const file = new File(["# Valves\n\nA valve."], "valves.md");
  const uploaded = await api.uploadFiles({ path: { name }, body: { file: [file] }, ...always });
  if (!("data" in uploaded.data)) throw new Error("the upload goes on in the background");
  const documents = await api.listDocuments({ path: { name }, query: { limit: 10 }, ...always });
  const jobs = await api.listJobs({ query: { collection: name }, ...always });
  const made = await api.createKey({ body: { name, read: [name], limits: { rpm: 7 } }, ...always });
  const keys = await api.listKeys(always);
  const revoked = await api.revokeKey({ path: { id: made.data.id }, ...always });
  const missing = await api.readDocumentByKey({ path: { name, key: "absent" } });
  const gone = await api.deleteDocumentByKey({ path: pump, ...always });
  const dropped = await api.deleteCollection({ path: { name }, ...always });
  console.log(
    JSON.stringify({
      created: created.data.id,
      placed: placed.data.status,
      text: read.data.text,
      modified_at: read.data.modified_at,
      attributes: read.data.attributes,
      found,
      others,
      uploaded: uploaded.data.data.map((one) => one.status),
      documents: documents.data.data.map((one) => one.key),
      jobs: jobs.data.data.map((one) => one.status),
      limit: made.data.limits.rpm,
      listed: keys.data.data.some((one) => one.id === made.data.id),
      revoked: (revoked.data.revoked_s ?? 0) > made.data.created_s,
      missing: [missing.response?.status, missing.error?.error.code],
      deleted: [gone.data.deleted, dropped.data.deleted],
    }),
  );
}

void main();
