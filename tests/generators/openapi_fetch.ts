// The steps of test_generated_clients.py with openapi-fetch and the types that openapi-typescript generates.
import createClient from "openapi-fetch";
import type { components, paths } from "./generated";

type Schemas = components["schemas"];
type Document = { text: string; modified_at: number; attributes: Schemas["Attributes"] };
const [url, key, name, given] = process.argv.slice(2) as [string, string, string, string];
const document: Document = JSON.parse(given);
const client = createClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${key}` } });

async function taken<Data>(reply: Promise<{ data?: Data; error?: unknown }>): Promise<Data> {
  const { data, error } = await reply;
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

async function sources(filter: Schemas["Filter"]): Promise<string[]> {
  const body = { query: "What is the pump called?", collections: [name], filter };
  const found = await taken(client.POST("/v1/knowledge/search", { body }));
  return found.data.map((passage) => passage.source);
}

async function main(): Promise<void> {
  const inside = { params: { path: { name } } };
  const pump = { params: { path: { name, key: "pump" } } };
  const absent = { params: { path: { name, key: "absent" } } };
  const ofDocument = "/v1/knowledge/collections/{name}/documents/{key}";
  const created = await taken(client.POST("/v1/knowledge/collections", { body: { name } }));
  const placed = await taken(client.PUT(ofDocument, { ...pump, body: document }));
  const read = await taken(client.GET(ofDocument, pump));
  const found = await sources({
    type: "and",
    filters: [
      { type: "eq", key: "bar", value: document.attributes["bar"] as number },
      { type: "not", filter: { type: "eq", key: "tested", value: false } },
      { type: "lte", key: "modified_at", value: document.modified_at },
    ],
  });
  const others = await sources({ type: "in", key: "colour", value: ["blue", "green"] });
  const form = new FormData();
  form.append("file", new File(["# Valves\n\nA valve."], "valves.md"));
  const uploaded = await taken(
    client.POST("/v1/knowledge/collections/{name}/files", {
      ...inside,
      body: { file: [] }, // the types of openapi-typescript know no file; the serializer gives the form
      bodySerializer: () => form,
    }),
  );
  if (!("data" in uploaded)) throw new Error("the upload goes on in the background");
  const pages = { params: { path: { name }, query: { limit: 10 } } };
  const documents = await taken(client.GET("/v1/knowledge/collections/{name}/documents", pages));
  const jobs = await taken(client.GET("/v1/knowledge/jobs", { params: { query: { collection: name } } }));
  const made = await taken(client.POST("/v1/admin/keys", { body: { name, read: [name], limits: { rpm: 7 } } }));
  const keys = await taken(client.GET("/v1/admin/keys"));
  const revoked = await taken(client.DELETE("/v1/admin/keys/{id}", { params: { path: { id: made.id } } }));
  const missing = await client.GET(ofDocument, absent);
  const gone = await taken(client.DELETE(ofDocument, pump));
  const dropped = await taken(client.DELETE("/v1/knowledge/collections/{name}", inside));
  console.log(
    JSON.stringify({
      created: created.id,
      placed: placed.status,
      text: read.text,
      modified_at: read.modified_at,
      attributes: read.attributes,
      found,
      others,
      uploaded: uploaded.data.map((one) => one.status),
      documents: documents.data.map((one) => one.key),
      jobs: jobs.data.map((one) => one.status),
      limit: made.limits.rpm,
      listed: keys.data.some((one) => one.id === made.id),
      revoked: (revoked.revoked_s ?? 0) > made.created_s,
      missing: [missing.response.status, missing.error?.error.code],
      deleted: [gone.deleted, dropped.deleted],
    }),
  );
}

void main();
