// The official anthropic SDK on the Messages API.
import Anthropic from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import { apiKey, baseURL, citySchema, claude, instructions, pixel, question, run, weather } from "./steps.mjs";

const client = new Anthropic({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
const tool = { name: "weather", description: "The weather in a city.", input_schema: citySchema };
const system = [{ type: "text", text: instructions, cache_control: { type: "ephemeral" } }];
const user = { role: "user", content: question };
const asked = (fields) => ({ model: claude, max_tokens: 2048, messages: [user], ...fields });

async function followed(fields) {
  const stream = client.messages.stream(asked(fields));
  const events = [];
  for await (const event of stream) events.push(event);
  return [events, await stream.finalMessage()];
}

await run(["@anthropic-ai/sdk"], {
  async create() {
    const { content, usage } = await client.messages.create(asked({ system: instructions }));
    return { content, usage };
  },
  async stream() {
    const [events, message] = await followed({ system });
    return { kinds: events.map((event) => event.type), content: message.content, reason: message.stop_reason };
  },
  async tools() {
    const first = await client.messages.create(asked({ tools: [tool] }));
    const call = first.content.at(-1);
    const result = { type: "tool_result", tool_use_id: call.id, content: weather("Bonn") };
    const messages = [user, { role: "assistant", content: first.content }, { role: "user", content: [result] }];
    return { call, content: (await client.messages.create(asked({ tools: [tool], messages }))).content };
  },
  async "streamed tools"() {
    const [events, message] = await followed({ tools: [tool] });
    return { events: events.filter((event) => event.delta), call: message.content.at(-1) };
  },
  async schema() {
    const format = jsonSchemaOutputFormat(citySchema);
    return (await client.messages.parse(asked({ output_config: { format } }))).parsed_output;
  },
  async image() {
    const picture = { type: "image", source: { type: "base64", media_type: "image/png", data: pixel } };
    const messages = [{ role: "user", content: [picture, { type: "text", text: question }] }];
    return (await client.messages.create(asked({ messages }))).content;
  },
  async reasoning() {
    const thinking = { type: "enabled", budget_tokens: 1024 };
    const [events, first] = await followed({ thinking });
    const said = { role: "assistant", content: first.content };
    const messages = [user, said, { role: "user", content: "And from Java?" }];
    const second = await client.messages.create(asked({ thinking, messages }));
    return { kinds: events.map((event) => event.type), content: second.content };
  },
  async cancel() {
    const stream = await client.messages.create(asked({ model: "endless", stream: true }));
    for await (const event of stream) return event.type; // leaving the loop closes the connection
  },
  count: () => client.messages.countTokens({ model: claude, messages: [user] }),
  async betas() {
    return (await client.beta.messages.create(asked({ betas: ["interleaved-thinking-2025-05-14"] }))).content;
  },
  async error() {
    try {
      await client.messages.create(asked({ model: "limited" }));
    } catch (error) {
      return { kind: error.constructor.name, body: error.error, retry: error.headers.get("retry-after") };
    }
  },
});
