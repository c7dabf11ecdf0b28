"""Samples become points: language models, light encoders, word vectors, string kernels and image networks.

Every embedder is a value that holds options, not weights; it is called with samples and gives an array (n, d). A plain
function from a list of samples to such an array is an embedder too.

    texts     LanguageModel · SentenceModel · OnnxText, minilm · WordVectors, glove · NGramKernel, SubsequenceKernel
    images    VisionModel · TorchScript, inception · OnnxImages
"""

from mallow.embed._cache import Cache, default_cache
from mallow.embed._embed import all_features, features, name_of, of_one_kind
from mallow.embed._images import Preprocess
from mallow.embed._language_model import LanguageModel
from mallow.embed._names import attribute, named
from mallow.embed._onnx import OnnxText, minilm
from mallow.embed._protocol import AnyEmbedder, Embedder, JointEmbedder, Points
from mallow.embed._sentence_model import SentenceModel
from mallow.embed._string_kernels import NGramKernel, SubsequenceKernel
from mallow.embed._vision import OnnxImages, TorchScript, VisionModel, inception
from mallow.embed._word_vectors import WordVectors, glove

__all__ = [
    "AnyEmbedder",
    "Cache",
    "Embedder",
    "JointEmbedder",
    "LanguageModel",
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
    "all_features",
    "attribute",
    "default_cache",
    "features",
    "glove",
    "inception",
    "minilm",
    "name_of",
    "named",
    "of_one_kind",
]
