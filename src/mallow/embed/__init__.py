"""Samples become points: language models, light encoders, word vectors, string kernels and image networks.

Every embedder is a value that holds options, not weights; it is called with samples and gives an array (n, d). A plain
function from a list of samples to such an array is an embedder too.
"""

from mallow.embed.cache import Cache, default_cache
from mallow.embed.features import features
from mallow.embed.protocol import Embedder, Points

__all__ = ["Cache", "Embedder", "Points", "default_cache", "features"]
