// The official openai SDK on the Responses API.
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { apiKey, baseURL, citySchema, gpt, instructions, pixel, question, run, weather } from "./steps.mjs";

const client = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey, maxRetries: 0, timeout: 60_000 });
const tool = { type: "function", name: "weather", parameters: citySchema, strict: true };
const ask = (fields) => client.responses.create({ model: gpt, input: question, ...fields });

async function followed(fields) {
  const events = [];
  const stream = client.responses.stream({ model: gpt, input: question, ...fields });
  for await (const event of stream) events.push(event);
  return [events, await stream.finalResponse()];
}

await run(["openai"], {
  async create() {
    const { output_text, status, usage } = await ask({ instructions });
    return { output_text, status, usage };
  },
  async stream() {
    const [events, response] = await followed({ instructions });
    return { kinds: events.map((event) => event.type), text: response.output_text };
  },
  async tools() {
    const first = await ask({ tools: [tool] });
    const call = first.output.at(-1);
    const result = { type: "function_call_output", call_id: call.call_id, output: weather("Bonn") };
    const input = [{ role: "user", content: question }, ...first.output, result];
    return { call, text: (await ask({ tools: [tool], input })).output_text };
  },
  async "streamed tools"() {
    const [events] = await followed({ tools: [tool] });
    return events.filter((event) => event.type.includes("function_call_arguments"));
  },
  async schema() {
    const format = zodTextFormat(z.object({ city: z.string() }), "city");
    return (await client.responses.parse({ model: gpt, input: question, text: { format } })).output_parsed;
  },
  async image() {
    const picture = { type: "input_image", image_url: `data:image/png;base64,${pixel}`, detail: "low" };
    const content = [{ type: "input_text", text: question }, picture];
    return (await ask({ input: [{ role: "user", content }] })).output_text;
  },
  async reasoning() {
    const fields = {
      store: false,
      reasoning: { effort: "low", summary: "auto" },
      include: ["reasoning.encrypted_content"],
    };
    const [events, first] = await followed(fields);
    const later = { role: "user", content: "And from Java?" };
    const second = await ask({ ...fields, input: [{ role: "user", content: question }, ...first.output, later] });
    return { kinds: events.map((event) => event.type), thought: second.output[0] };
  },
  async cancel() {
    const stream = await ask({ model: "endless", stream: true });
    for await (const event of stream) return event.type; // leaving the loop closes the connection
  },
  async stored() {
    const query = { query: { model: gpt } };
    const started = await ask({ background: true });
    const states = [started.status, (await client.responses.retrieve(started.id, {}, query)).status];
    states.push((await client.responses.cancel(started.id, query)).status);
    const items = await client.responses.inputItems.list(started.id, {}, query);
    await client.responses.delete(started.id, query);
    return { states, items: items.data.length };
  },
  async error() {
    try {
      await ask({ model: "limited" });
    } catch (error) {
      return { kind: error.constructor.name, code: error.code, retry: error.headers.get("retry-after") };
    }
  },
});
