"""Samples in and out: texts, images and features, from files, folders, tables and lists."""

from mallow.samples._samples import Samples, read, write

__all__ = ["Samples", "read", "write"]
