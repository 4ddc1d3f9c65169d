"""LangChain's ChatOpenAI in the mode of the Responses API."""

from typing import Any

import openai
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests.python.steps import API_KEY, BASE_URL, INSTRUCTIONS, MODEL, PIXEL, QUESTION, City, run, weather

ASKED = [SystemMessage(INSTRUCTIONS), HumanMessage(QUESTION)]


def chat(model: str = MODEL["openai"], **settings: Any) -> Any:
    return ChatOpenAI(
        model=model, base_url=f"{BASE_URL}/v1", api_key=API_KEY, use_responses_api=True, max_retries=0, **settings
    )


async def create() -> Any:
    reply = await chat().ainvoke(ASKED)
    return {"text": reply.text, "tokens": reply.usage_metadata["total_tokens"]}


async def stream() -> Any:
    return [chunk.text async for chunk in chat().astream(ASKED)]


async def tools() -> Any:
    bound = chat().bind_tools([tool(weather)])
    first = await bound.ainvoke(ASKED)
    (call,) = first.tool_calls
    second = await bound.ainvoke([*ASKED, first, ToolMessage(weather(**call["args"]), tool_call_id=call["id"])])
    return {"call": call, "text": second.text}


async def streamed_tools() -> Any:
    bound = chat().bind_tools([tool(weather)])
    chunks = [chunk async for chunk in bound.astream(ASKED)]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole.tool_calls


async def schema() -> Any:
    return (await chat().with_structured_output(City, method="json_schema").ainvoke(ASKED)).model_dump()


async def image() -> Any:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    return (await chat().ainvoke([HumanMessage([{"type": "text", "text": QUESTION}, picture])])).text


async def reasoning() -> Any:
    thinking = chat(
        reasoning={"effort": "low", "summary": "auto"},
        store=False,
        include=["reasoning.encrypted_content"],
        output_version="responses/v1",
    )
    first = await thinking.ainvoke(ASKED)
    second = await thinking.ainvoke([*ASKED, first, HumanMessage("And from Java?")])
    (thought,) = [part for part in second.content if part["type"] == "reasoning"]
    return thought


async def cancel() -> Any:
    chunks = chat("endless").astream(ASKED)
    first = await anext(chunks)
    await chunks.aclose()
    return first.text


async def error() -> Any:
    try:
        await chat("limited").ainvoke(ASKED)
    except openai.RateLimitError as caught:
        return {"code": caught.code, "retry": caught.response.headers["retry-after"]}


if __name__ == "__main__":
    run(["langchain-openai", "openai"], {
        "create": create, "stream": stream, "tools": tools, "streamed tools": streamed_tools, "schema": schema,
        "image": image, "reasoning": reasoning, "cancel": cancel, "error": error,
    })  # fmt: skip
