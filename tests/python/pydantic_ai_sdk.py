"""pydantic-ai's OpenAIResponsesModel."""

import base64
from typing import Any

from pydantic_ai import Agent, BinaryContent, ModelHTTPError, NativeOutput
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

from tests.python.steps import API_KEY, BASE_URL, INSTRUCTIONS, MODEL, PIXEL, QUESTION, City, run, weather


def agent(model: str = MODEL["openai"], **settings: Any) -> Any:
    provider = OpenAIProvider(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
    return Agent(OpenAIResponsesModel(model, provider=provider), instructions=INSTRUCTIONS, retries=0, **settings)


async def create() -> Any:
    result = await agent().run(QUESTION)
    return {"text": result.output, "tokens": result.usage.total_tokens}


async def stream() -> Any:
    async with agent().run_stream(QUESTION) as result:
        return [text async for text in result.stream_text(delta=True, debounce_by=None)]


async def tools() -> Any:
    result = await agent(tools=[weather]).run(QUESTION)
    return {"parts": [part.part_kind for message in result.all_messages() for part in message.parts]}


async def streamed_tools() -> Any:
    async with agent(tools=[weather]).run_stream(QUESTION) as result:
        return await result.get_output()


async def schema() -> Any:
    return (await agent(output_type=NativeOutput(City)).run(QUESTION)).output.model_dump()


async def image() -> Any:
    picture = BinaryContent(base64.b64decode(PIXEL), media_type="image/png")
    return (await agent().run([QUESTION, picture])).output


async def reasoning() -> Any:
    settings = OpenAIResponsesModelSettings(
        openai_reasoning_effort="low", openai_reasoning_summary="auto", openai_store=False
    )
    result = await agent(tools=[weather], model_settings=settings).run(QUESTION)
    parts = [part for message in result.all_messages() for part in message.parts if isinstance(part, ThinkingPart)]
    return [{"text": part.content, "signature": part.signature} for part in parts]


async def cancel() -> Any:
    async with agent("endless").run_stream_events(QUESTION) as events:
        first = await anext(aiter(events))
    return type(first).__name__


async def error() -> Any:
    try:
        await agent("limited").run(QUESTION)
    except ModelHTTPError as caught:
        return {"status": caught.status_code, "body": caught.body}


if __name__ == "__main__":
    run(["pydantic-ai-slim", "openai"], {
        "create": create, "stream": stream, "tools": tools, "streamed tools": streamed_tools, "schema": schema,
        "image": image, "reasoning": reasoning, "cancel": cancel, "error": error,
    })  # fmt: skip
