"""The official anthropic SDK on the Messages API."""

from typing import Any

import anthropic

from tests.python.steps import API_KEY, BASE_URL, INSTRUCTIONS, MODEL, PIXEL, QUESTION, City, run, weather

TOOL: Any = {
    "name": "weather",
    "description": weather.__doc__,
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SYSTEM: Any = [{"type": "text", "text": INSTRUCTIONS, "cache_control": {"type": "ephemeral"}}]
USER: Any = {"role": "user", "content": QUESTION}
client = anthropic.AsyncAnthropic(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=60)


def asked(*messages: Any, model: str = MODEL["anthropic"], **fields: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 2048, "messages": list(messages or (USER,)), **fields}


async def create() -> Any:
    reply = await client.messages.create(**asked(system=INSTRUCTIONS))
    return {"content": [block.to_dict() for block in reply.content], "usage": reply.usage.to_dict()}


async def stream() -> Any:
    async with client.messages.stream(**asked(system=SYSTEM)) as events:
        kinds = [event.type async for event in events]
        message = await events.get_final_message()
    return {"kinds": kinds, "text": message.content[0].to_dict(), "reason": message.stop_reason}


async def tools() -> Any:
    first = await client.messages.create(**asked(tools=[TOOL]))
    call = first.content[-1]
    assert call.type == "tool_use"
    said = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": weather("Bonn")}
    answered = {"role": "user", "content": [result]}
    second = await client.messages.create(**asked(USER, said, answered, tools=[TOOL]))
    return {"call": call.to_dict(), "text": second.content[0].to_dict()}


async def streamed_tools() -> Any:
    async with client.messages.stream(**asked(tools=[TOOL])) as events:
        pieces = [event.partial_json async for event in events if event.type == "input_json"]
        message = await events.get_final_message()
    return {"pieces": pieces, "call": message.content[-1].to_dict()}


async def schema() -> Any:
    reply = await client.messages.parse(**asked(output_format=City))
    assert reply.parsed_output is not None
    return reply.parsed_output.model_dump()


async def image() -> Any:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    parts = [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]
    return (await client.messages.create(**asked({"role": "user", "content": parts}))).content[0].to_dict()


async def reasoning() -> Any:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    async with client.messages.stream(**asked(thinking=thinking)) as events:
        kinds = [event.type async for event in events]
        first = await events.get_final_message()
    said = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
    later = {"role": "user", "content": "And from Java?"}
    second = await client.messages.create(**asked(USER, said, later, thinking=thinking))
    return {"kinds": kinds, "content": [block.to_dict() for block in second.content]}


async def cancel() -> Any:
    events = await client.messages.create(**asked(model="endless"), stream=True)
    first = await anext(aiter(events))
    await events.close()
    return first.type


async def count() -> Any:
    return (await client.messages.count_tokens(model=MODEL["anthropic"], messages=[USER])).input_tokens


async def betas() -> Any:
    reply = await client.beta.messages.create(**asked(), betas=["interleaved-thinking-2025-05-14"])
    return [block.to_dict() for block in reply.content]


async def error() -> Any:
    try:
        await client.messages.create(**asked(model="limited"))
    except anthropic.RateLimitError as caught:
        return {"body": caught.body, "retry": caught.response.headers["retry-after"]}


if __name__ == "__main__":
    run(["anthropic"], {
        "create": create, "stream": stream, "tools": tools, "streamed tools": streamed_tools, "schema": schema,
        "image": image, "reasoning": reasoning, "cancel": cancel, "count": count, "betas": betas, "error": error,
    })  # fmt: skip
