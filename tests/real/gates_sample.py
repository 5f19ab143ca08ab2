"""Draw the places on which the gate audit's recall and precision are measured.

The draw knows nothing of the audit: it looks for words that gates and look-alikes share, in
eight strata, and takes a seeded sample of the lines of each. The lines were labelled by reading
the code, in ``gates_sample.toml``. The first seed was drawn before the audit had seen these trees,
and the audit was developed with its labels at hand. The second was drawn and labelled when the
audit was done, and the audit's first answer to it is noted there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path

SEEDS = (20261129, 20261130)
PYTHON = (".py",)
CPP = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".inc")

# name, suffixes, words to look for, places to take
STRATA = (
    ("python predicate", PYTHON, r"\bis_(?:sm\d+|hopper|blackwell|ampere)\w*", 14),
    ("python capability", PYTHON, r"capability|\bcompute_cap", 14),
    ("python version", PYTHON, r"\bmajor\b|\bsm_version\b|\barch\b", 12),
    ("python mention", PYTHON, r"\b(?:sm|SM)_?\d{2,3}[af]?\b", 8),
    ("python look-alike", PYTHON, r"\bsm_scale\b|\bsm_count\b|\bnum_sms\b|\bgfx\d+|\bis_hip\b", 10),
    ("preprocessor", CPP, r"__CUDA_ARCH|CUDA_VERSION|_FEAT_SM", 14),
    ("host check", CPP, r"\bsm\b|\bSM\b|[sS][mM]_?[vV]ersion|\.major\b|->major\b", 12),
    ("C++ look-alike", CPP, r"sm_count|sm_scale|SM\d{2,3}", 8),
)


def candidates(roots: Mapping[str, Path], suffixes: tuple[str, ...], words: str) -> list[tuple[str, str, int]]:
    """List (root's name, path, line) of every line with one of the words, sorted."""
    pattern = re.compile(words)
    found = []
    for name, root in roots.items():
        for file in root.rglob("*"):
            path = file.relative_to(root).as_posix()
            if file.suffix not in suffixes or path.startswith("3rdparty/") or not file.is_file():
                continue
            for number, line in enumerate(file.read_text("utf-8", "replace").split("\n"), 1):
                if pattern.search(line):
                    found.append((name, path, number))
    return sorted(found)


def draw(roots: Mapping[str, Path], *, seed: int) -> list[tuple[str, str, str, int]]:
    """Return (stratum, root's name, path, line) of every place of the sample, without repeats."""
    generator = random.Random(seed)
    places: dict[tuple[str, str, int], str] = {}
    for stratum, suffixes, words, count in STRATA:
        left = [place for place in candidates(roots, suffixes, words) if place not in places]
        places.update(dict.fromkeys(generator.sample(left, count), stratum))
    return [(stratum, *place) for place, stratum in places.items()]
