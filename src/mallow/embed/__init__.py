"""Samples become points: language models, light encoders, word vectors, string kernels and image networks.

Every embedder is a value that holds options, not weights; it is called with samples and gives an array (n, d). A plain
function from a list of samples to such an array is an embedder too.

    texts     LanguageModel · SentenceModel · OnnxText, minilm · WordVectors, glove · NGramKernel, SubsequenceKernel
    images    VisionModel · TorchScript, inception · OnnxImages
"""

from mallow.embed.cache import Cache, default_cache
from mallow.embed.features import features
from mallow.embed.images import Preprocess
from mallow.embed.kernels import NGramKernel, SubsequenceKernel
from mallow.embed.language import LanguageModel
from mallow.embed.named import named
from mallow.embed.onnx import OnnxText, minilm
from mallow.embed.protocol import Embedder, Points
from mallow.embed.sentence import SentenceModel
from mallow.embed.vision import OnnxImages, TorchScript, VisionModel, inception
from mallow.embed.words import WordVectors, glove

__all__ = [
    "Cache",
    "Embedder",
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
    "default_cache",
    "features",
    "glove",
    "inception",
    "minilm",
    "named",
]
