"""The official openai SDK on the Responses API."""

from typing import Any

import openai

from tests.python.steps import API_KEY, BASE_URL, INSTRUCTIONS, MODEL, PIXEL, QUESTION, City, run, weather

GPT = MODEL["openai"]
TOOL: Any = {
    "type": "function",
    "name": "weather",
    "description": weather.__doc__,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
client = openai.AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY, max_retries=0, timeout=60)


async def create() -> Any:
    reply = await client.responses.create(model=GPT, input=QUESTION, instructions=INSTRUCTIONS)
    return {"text": reply.output_text, "status": reply.status, "usage": reply.usage and reply.usage.to_dict()}


async def stream() -> Any:
    async with client.responses.stream(model=GPT, input=QUESTION, instructions=INSTRUCTIONS) as events:
        kinds = [event.type async for event in events]
        return {"kinds": kinds, "text": (await events.get_final_response()).output_text}


async def tools() -> Any:
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    first = await client.responses.create(model=GPT, input=history, tools=[TOOL])
    call = first.output[-1]
    assert call.type == "function_call"
    history += [item.to_dict() for item in first.output]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": weather("Bonn")})
    second = await client.responses.create(model=GPT, input=history, tools=[TOOL])
    return {"call": call.to_dict(), "text": second.output_text}


async def streamed_tools() -> Any:
    async with client.responses.stream(model=GPT, input=QUESTION, tools=[TOOL]) as events:
        return [event.to_dict() async for event in events if "function_call_arguments" in event.type]


async def schema() -> Any:
    reply = await client.responses.parse(model=GPT, input=QUESTION, text_format=City)
    assert reply.output_parsed is not None
    return reply.output_parsed.model_dump()


async def image() -> Any:
    parts: Any = [
        {"type": "input_text", "text": QUESTION},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
    ]
    reply = await client.responses.create(model=GPT, input=[{"role": "user", "content": parts}])
    return reply.output_text


async def reasoning() -> Any:
    asked: dict[str, Any] = {
        "model": GPT,
        "store": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    async with client.responses.stream(input=history, **asked) as events:
        kinds = [event.type async for event in events]
        first = await events.get_final_response()
    history += [item.to_dict() for item in first.output]
    history.append({"role": "user", "content": "And from Java?"})
    second = await client.responses.create(input=history, **asked)
    return {"kinds": kinds, "item": second.output[0].to_dict()}


async def cancel() -> Any:
    events = await client.responses.create(model="endless", input=QUESTION, stream=True)
    first = await anext(aiter(events))
    await events.close()
    return first.type


async def stored() -> Any:
    query = {"model": GPT}
    started = await client.responses.create(model=GPT, input=QUESTION, background=True)
    states = [started.status, (await client.responses.retrieve(started.id, extra_query=query)).status]
    states.append((await client.responses.cancel(started.id, extra_query=query)).status)
    items = await client.responses.input_items.list(started.id, extra_query=query)
    await client.responses.delete(started.id, extra_query=query)
    return {"states": states, "items": len(items.data)}


async def error() -> Any:
    try:
        await client.responses.create(model="limited", input=QUESTION)
    except openai.RateLimitError as caught:
        return {"code": caught.code, "retry": caught.response.headers["retry-after"], "id": caught.request_id}


if __name__ == "__main__":
    run(["openai"], {
        "create": create, "stream": stream, "tools": tools, "streamed tools": streamed_tools, "schema": schema,
        "image": image, "reasoning": reasoning, "cancel": cancel, "stored": stored, "error": error,
    })  # fmt: skip
