"""The OpenAI Agents SDK with the default model class, which speaks the Responses API."""

from typing import Any

import openai
from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai.types.shared import Reasoning

from tests.python.steps import API_KEY, BASE_URL, INSTRUCTIONS, MODEL, PIXEL, QUESTION, City, run, weather

client = openai.AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY, max_retries=0, timeout=60)
set_tracing_disabled(True)


def agent(model: str = MODEL["openai"], **settings: Any) -> Agent[Any]:
    model_of = OpenAIResponsesModel(model=model, openai_client=client)
    return Agent(name="Pilot", instructions=INSTRUCTIONS, model=model_of, **settings)


async def create() -> Any:
    result = await Runner.run(agent(), QUESTION)
    return {"text": result.final_output, "tokens": result.context_wrapper.usage.total_tokens}


async def stream() -> Any:
    result = Runner.run_streamed(agent(), QUESTION)
    kinds = [event.data.type async for event in result.stream_events() if event.type == "raw_response_event"]
    return {"kinds": kinds, "text": result.final_output}


async def tools() -> Any:
    result = await Runner.run(agent(tools=[function_tool(weather)]), QUESTION)
    return {"items": [item.type for item in result.new_items], "text": result.final_output}


async def streamed_tools() -> Any:
    result = Runner.run_streamed(agent(tools=[function_tool(weather)]), QUESTION)
    events = [event.name async for event in result.stream_events() if event.type == "run_item_stream_event"]
    return {"events": events, "text": result.final_output}


async def schema() -> Any:
    return (await Runner.run(agent(output_type=City), QUESTION)).final_output.model_dump()


async def image() -> Any:
    parts = [
        {"type": "input_text", "text": QUESTION},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
    ]
    return (await Runner.run(agent(), [{"role": "user", "content": parts}])).final_output


async def reasoning() -> Any:
    settings = ModelSettings(
        store=False,
        reasoning=Reasoning(effort="low", summary="auto"),
        response_include=["reasoning.encrypted_content"],
    )
    result = await Runner.run(agent(tools=[function_tool(weather)], model_settings=settings), QUESTION)
    return [item.raw_item.model_dump() for item in result.new_items if item.type == "reasoning_item"]


async def cancel() -> Any:
    result = Runner.run_streamed(agent("endless"), QUESTION)
    kinds = []
    async for event in result.stream_events():
        kinds.append(event.type)
        if event.type == "raw_response_event":
            result.cancel()
    return kinds


async def error() -> Any:
    try:
        await Runner.run(agent("limited"), QUESTION)
    except openai.RateLimitError as caught:
        return {"code": caught.code, "retry": caught.response.headers["retry-after"]}


if __name__ == "__main__":
    run(["openai-agents", "openai"], {
        "create": create, "stream": stream, "tools": tools, "streamed tools": streamed_tools, "schema": schema,
        "image": image, "reasoning": reasoning, "cancel": cancel, "error": error,
    })  # fmt: skip
