"""A typical first app: parses a request's JSON with Starlette and returns the model's name. Runs under uvicorn."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route


async def _model(request: Request) -> JSONResponse:
    try:
        body = await request.json()
    except ValueError:
        return JSONResponse({"error": "no JSON"}, 400)
    return JSONResponse({"model": body.get("model") if isinstance(body, dict) else None})


async def _healthz(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


app = Starlette(routes=[Route("/healthz", _healthz), Route("/{path:path}", _model, methods=["POST"])])
