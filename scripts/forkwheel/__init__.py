"""Build patched wheels from pinned upstream sources, byte for byte reproducible."""

__version__ = "0.1.0"
