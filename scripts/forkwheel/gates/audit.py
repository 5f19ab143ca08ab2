"""Audit source trees: find their gates, and which of these are on the path from the entries."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from forkwheel.gates.arch import Arch
from forkwheel.gates.codec import audit_from_json, audit_to_json
from forkwheel.gates.cpp_graph import CppGraph
from forkwheel.gates.cuda_gates import CppFile, CudaFindings
from forkwheel.gates.cuda_search import CudaSearch
from forkwheel.gates.deep import with_deep_stack
from forkwheel.gates.files import FileKey, SourceFile, list_files
from forkwheel.gates.kept import Slot
from forkwheel.gates.model import Audit, Entry, Layer, Question
from forkwheel.gates.modules import Module, Modules
from forkwheel.gates.path_audit import audit_paths
from forkwheel.gates.paths import Paths
from forkwheel.gates.python_gates import PythonFindings, find_python_gates
from forkwheel.store import Store


def audit(
    roots: Mapping[str, Path],
    *,
    target: Arch,
    references: tuple[Arch, ...],
    entries: Sequence[Entry] = (),
    layers: Sequence[Layer] = (),
    store: Store | None = None,
) -> Audit:
    """Find the gates of some folders; raise UsageError where an entry does not exist."""
    question = Question(target, references, tuple(entries), tuple(layers))
    return audit_all([list_files(roots)], question, store=store)[0]


def audit_all(
    states: Sequence[Sequence[SourceFile]], question: Question, *, store: Store | None = None, path_only: bool = False
) -> tuple[Audit, ...]:
    """Find the gates of several states of some trees, such as those before and after a series.

    What they have in common is read once. With a ``store``, a state that was audited before is not
    read again. With ``path_only``, the gates that are not on the path are left out, and no file is
    read that it does not lead to. Raise UsageError where an entry does not exist.
    """
    slots = [Slot.of(store, files, (question, path_only)) for files in states]
    audits: list[Audit | None] = []
    for slot, files in zip(slots, states, strict=True):
        known = slot.read()
        audits.append(None if known is None else audit_from_json(known, files=files))
    missing = [number for number, found in enumerate(audits) if found is None]
    if missing:
        rest = [states[number] for number in missing]
        find = partial(audit_paths, rest, question) if path_only else partial(_audit_afresh, rest, question, store)
        with _without_collection():
            fresh = with_deep_stack(find)
        for number, found in zip(missing, fresh, strict=True):
            audits[number] = found
            slots[number].write(audit_to_json(found))
    return tuple(found for found in audits if found is not None)


def _audit_afresh(states: Sequence[Sequence[SourceFile]], question: Question, store: Store | None) -> list[Audit]:
    """Have another process look at C++ and CUDA, and look at Python meanwhile."""
    modules: dict[FileKey, Module] = {}
    with CudaSearch(states, question, store=store) as search:
        python = [
            find_python_gates(Modules((file for file in files if file.is_python), modules), question)
            for files in states
        ]
        cpp: dict[FileKey, CppFile] = {}
        return [
            _joined(files, question, found, cuda, cpp)
            for files, found, cuda in zip(states, python, search.answers(), strict=True)
        ]


def _joined(
    files: Sequence[SourceFile],
    question: Question,
    python: PythonFindings,
    cuda: CudaFindings,
    cpp: dict[FileKey, CppFile],
) -> Audit:
    others = [
        cpp.setdefault(file.key, CppFile(file.root, file.path, file.text)) for file in files if not file.is_python
    ]
    paths = Paths(python.interpreter, CppGraph(others), cuda.exports)
    paths.follow(question.entries)
    paths.cross()
    gates = (*python.gates, *cuda.gates)
    return Audit(
        target=question.target,
        references=question.references,
        gates=gates,
        path=paths.steps(gates, question.entries, question.layers),
        failures=(*python.failures, *cuda.failures),
        files=tuple(files),
    )


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep Python from looking for garbage among millions of nodes of syntax trees, which hold none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
