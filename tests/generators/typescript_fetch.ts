// The steps of test_generated_clients.py with the TypeScript client that OpenAPI Generator generates.
import {
  AdminApi,
  CollectionsApi,
  Configuration,
  DocumentsApi,
  ErrorReplyFromJSON,
  JobsApi,
  ResponseError,
  SearchApi,
  type AttributeValue,
  type Filter,
} from "./generated";

type Document = { text: string; modified_at: number; attributes: { [name: string]: AttributeValue } };
const [url, key, name, given] = process.argv.slice(2) as [string, string, string, string];
const document: Document = JSON.parse(given);
const settings = new Configuration({ basePath: url, accessToken: key });
const documents = new DocumentsApi(settings);
const collections = new CollectionsApi(settings);
const admin = new AdminApi(settings);

async function sources(filter: Filter): Promise<string[]> {
  const searchRequest = { query: "What is the pump called?", collections: [name], filter };
  const found = await new SearchApi(settings).search({ searchRequest });
  return found.data.map((passage) => passage.source);
}

async function missing(): Promise<[number, string]> {
  try {
    await documents.readDocumentByKey({ name, key: "absent" });
  } catch (refused) {
    if (!(refused instanceof ResponseError)) throw refused;
    return [refused.response.status, ErrorReplyFromJSON(await refused.response.json()).error.code];
  }
  throw new Error("the document is there");
}

async function main(): Promise<void> {
  const created = await collections.createCollection({ createCollectionRequest: { name } });
  const { text, modified_at: modifiedAt, attributes } = document;
  const placed = await documents.putDocument({ name, key: "pump", givenDocument: { text, modifiedAt, attributes } });
  const read = await documents.readDocumentByKey({ name, key: "pump" });
  const found = await sources({
    type: "and",
    filters: [
      { type: "eq", key: "bar", value: attributes["bar"] as number },
      { type: "not", filter: { type: "eq", key: "tested", value: false } },
      { type: "lte", key: "modified_at", value: modifiedAt },
    ],
  });
  const others = await sources({ type: "in", key: "colour", value: ["blue", "green"] });
  const uploaded = await documents.uploadFiles({ name, file: [new File(["# Valves\n\nA valve."], "valves.md")] });
  const page = await documents.listDocuments({ name, limit: 10 });
  const jobs = await new JobsApi(settings).listJobs({ collection: name });
  const made = await admin.createKey({ createKeyRequest: { name, read: [name], limits: { rpm: 7 } } });
  const keys = await admin.listKeys();
  const revoked = await admin.revokeKey({ id: made.id });
  const absent = await missing();
  const gone = await documents.deleteDocumentByKey({ name, key: "pump" });
  const dropped = await collections.deleteCollection({ name });
  console.log(
    JSON.stringify({
      created: created.id,
      placed: placed.status,
      text: read.text,
      modified_at: read.modifiedAt,
      attributes: read.attributes,
      found,
      others,
      uploaded: uploaded.data.map((one) => one.status),
      documents: page.data.map((one) => one.key),
      jobs: jobs.data.map((one) => one.status),
      limit: made.limits.rpm,
      listed: keys.data.some((one) => one.id === made.id),
      revoked: (revoked.revokedS ?? 0) > made.createdS,
      missing: absent,
      deleted: [gone.deleted, dropped.deleted],
    }),
  );
}

void main();
