// The AI SDK of Vercel with a provider: `openai`, which speaks the Responses API by default, or `anthropic`.
// usage: node vercel_sdk.mjs BASE_URL API_KEY PROVIDER
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { apiKey, baseURL, claude, gpt, instructions, pixel, question, run, weather } from "./steps.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false; // standard output is for the results
const provider = process.argv[4];
const settings = { baseURL: `${baseURL}/v1`, apiKey };
const make = provider === "openai" ? createOpenAI(settings) : createAnthropic(settings);
const name = provider === "openai" ? gpt : claude;
const thinking = {
  openai: { reasoningEffort: "low", reasoningSummary: "auto", store: false, include: ["reasoning.encrypted_content"] },
  anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } },
};
const city = z.object({ city: z.string() });
const tools = {
  weather: tool({ description: "The weather in a city.", inputSchema: city, execute: (asked) => weather(asked.city) }),
};
const asked = { model: make(name), system: instructions, prompt: question, maxRetries: 0 };
const silent = { onError() {} }; // the step reads the error from the stream

await run(["ai", `@ai-sdk/${provider}`], {
  async create() {
    const { text, finishReason, usage } = await generateText(asked);
    return { text, finishReason, total: usage.totalTokens };
  },
  async stream() {
    const parts = [];
    for await (const part of streamText({ ...asked, ...silent }).fullStream) parts.push(part.type);
    return parts;
  },
  async tools() {
    const { text, steps } = await generateText({ ...asked, tools, stopWhen: stepCountIs(3) });
    return { text, steps: steps.map((step) => step.content.map((part) => part.type)) };
  },
  async "streamed tools"() {
    const result = streamText({ ...asked, ...silent, tools, stopWhen: stepCountIs(3) });
    const pieces = [];
    for await (const part of result.fullStream) if (part.type === "tool-input-delta") pieces.push(part.delta);
    return { pieces, text: await result.text };
  },
  async schema() {
    return (await generateText({ ...asked, output: Output.object({ schema: city }) })).output;
  },
  async image() {
    const picture = { type: "image", image: Buffer.from(pixel, "base64"), mediaType: "image/png" };
    const messages = [{ role: "user", content: [{ type: "text", text: question }, picture] }];
    return (await generateText({ model: make(name), messages, maxRetries: 0 })).text;
  },
  async reasoning() {
    const fields = { ...asked, tools, stopWhen: stepCountIs(3), providerOptions: thinking };
    const { steps } = await generateText(fields);
    return steps.map((step) => step.reasoning.map((part) => [part.text, part.providerMetadata]));
  },
  async cancel() {
    const controller = new AbortController();
    const result = streamText({ ...asked, ...silent, model: make("endless"), abortSignal: controller.signal });
    const parts = [];
    for await (const part of result.fullStream) {
      parts.push(part.type);
      if (part.type === "text-delta") controller.abort();
    }
    return parts.filter((kind) => kind !== "text-delta");
  },
  async error() {
    try {
      await generateText({ ...asked, model: make("limited") });
    } catch (error) {
      return { kind: error.name, status: error.statusCode, body: error.responseBody, retry: error.isRetryable };
    }
  },
});
