"""The imports of all commands, for the process that forks commands (`gateway.ragway`).

torch and litellm are left out: few commands import torch or litellm.
"""

import importlib

import alembic.autogenerate
import alembic.command
import numpy
import onnxruntime
import qdrant_edge
import sqlalchemy.dialects.sqlite
import tokenizers

from cli import COMMANDS

for module, _ in COMMANDS.values():
    importlib.import_module(f"cli.{module}")
for name in ("cli.assembly.gateway", "retrieval.index.index", "retrieval.rpc.client", "proxy.access.sql"):
    importlib.import_module(name)

__all__ = ["alembic", "numpy", "onnxruntime", "qdrant_edge", "sqlalchemy", "tokenizers"]
