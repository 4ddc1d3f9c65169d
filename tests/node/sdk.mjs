// The official openai SDK for Node against a served gateway: runs every case once and prints {case: result} as JSON.
// usage: node sdk.mjs BASE_URL LANE UPSTREAM_URL   (LANE prefixes the models; POST UPSTREAM_URL/go asks for the next chunk)
import OpenAI from "openai";

const [baseURL, lane, upstream] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "any placeholder", maxRetries: 0, timeout: 30_000 });
const model = `${lane}/gpt`;
const question = { role: "user", content: "How do I use Zephyr from Kotlin?" };
const pirate = { role: "system", content: "Talk like a pirate." };
const weather = {
  type: "function",
  function: {
    name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const ask = (fields) => client.chat.completions.create({ model, messages: [question], ...fields });

const cases = {
  async plain() {
    const reply = await ask({ messages: [pirate, question], temperature: 0.5 });
    const { message, finish_reason } = reply.choices[0];
    return { content: message.content, finish_reason, usage: reply.usage };
  },
  async streamed() {
    const finishes = [];
    let content = "";
    for await (const chunk of await ask({ model: `${lane}/in-step`, stream: true })) {
      content += chunk.choices[0].delta.content ?? "";
      finishes.push(chunk.choices[0].finish_reason);
      await fetch(`${upstream}/go`, { method: "POST" }); // without it the upstream does not send the next chunk
    }
    return { content, finishes };
  },
  async tools() {
    const first = await ask({ tools: [weather] });
    const said = first.choices[0].message;
    const result = { role: "tool", tool_call_id: said.tool_calls[0].id, content: "21 degrees" };
    const second = await ask({ tools: [weather], messages: [question, said, result] });
    return { call: said.tool_calls[0], content: second.choices[0].message.content };
  },
  async picture() {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=", detail: "low" } };
    const content = [{ type: "text", text: question.content }, image];
    const reply = await ask({ messages: [{ role: "user", content }] });
    return { content: reply.choices[0].message.content };
  },
  async choices() {
    const reply = await ask({ n: 2 });
    return { contents: reply.choices.map((choice) => choice.message.content) };
  },
  async developer() {
    const reply = await ask({ messages: [{ role: "developer", content: "Answer in one line." }, question] });
    return { content: reply.choices[0].message.content };
  },
  async headers() {
    const { response } = await ask({}).withResponse();
    return Object.fromEntries([...response.headers].filter(([name]) => name.startsWith("x-rag-")));
  },
  unknown: () => refused({ model: "gpt-9" }),
  keyless: () => refused({ model: `${lane}/keyless` }),
  limited: () => refused({ model: `${lane}/limited`, stream: true }),
};

async function refused(fields) {
  try {
    await ask(fields);
  } catch (error) {
    return { kind: error.constructor.name, status: error.status, code: error.code };
  }
  throw new Error("it was not refused");
}

const results = {};
for (const [name, run] of Object.entries(cases)) {
  try {
    results[name] = await run();
  } catch (error) {
    results[name] = { failed: String(error?.stack ?? error) };
  }
}
console.log(JSON.stringify(results));
