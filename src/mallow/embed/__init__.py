"""Embedders: language models, light encoders, word vectors, string kernels, image networks and spectra.

Every embedder is a value that holds options, not weights. It is called with samples and returns an array (n, d). A
plain function from a list of samples to such an array is an embedder too. The string kernels embed all texts together
instead: `points` returns their features.

    texts     LanguageModel · SentenceModel · OnnxText, minilm · WordVectors, glove · style
              NGramKernel, SubsequenceKernel
    images    EfficientNet, efficientnet · VisionModel · TorchScript, inception · OnnxImages · texture
    audio     MelStatistics
"""

from mallow.embed._cache import Cache, default_cache
from mallow.embed._efficientnet import EfficientNet, efficientnet
from mallow.embed._embed import (
    UNMATCHED,
    add_spaces,
    check_prompts,
    embed_all,
    embed_samples,
    embedder_name,
    read_all,
    resolve_embedder,
    shares_prompts,
    spaces_of_texts,
)
from mallow.embed._image_networks import OnnxImages, TorchScript, VisionModel, inception
from mallow.embed._language_model import LanguageModel
from mallow.embed._mel import MelStatistics
from mallow.embed._minilm import minilm
from mallow.embed._names import FAST, find_embedder, import_object, is_import, suggest_embedder
from mallow.embed._onnx_text import OnnxText
from mallow.embed._preprocess import FidPreprocess, Preprocess
from mallow.embed._protocol import AnyEmbedder, Embedder, JointEmbedder, Points
from mallow.embed._sentence_model import SentenceModel
from mallow.embed._shards import embed_shards, shard_kind
from mallow.embed._string_kernels import NGramKernel, SubsequenceKernel
from mallow.embed._style import style
from mallow.embed._texture import texture
from mallow.embed._word_vectors import WordVectors, glove

__all__ = [
    "AnyEmbedder",
    "Cache",
    "EfficientNet",
    "Embedder",
    "FidPreprocess",
    "JointEmbedder",
    "LanguageModel",
    "MelStatistics",
    "NGramKernel",
    "OnnxImages",
    "OnnxText",
    "Points",
    "Preprocess",
    "SentenceModel",
    "SubsequenceKernel",
    "TorchScript",
    "VisionModel",
    "WordVectors",
    "default_cache",
    "efficientnet",
    "embed_all",
    "embed_samples",
    "embed_shards",
    "find_embedder",
    "glove",
    "inception",
    "minilm",
    "style",
    "texture",
]
