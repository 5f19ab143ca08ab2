"""Audit source trees: find their gates, and which of these are on the path from the entries."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forkwheel.errors import VerificationError
from forkwheel.gates.arch import Arch, universe
from forkwheel.gates.codec import audit_from_json, audit_to_json, findings_from_json
from forkwheel.gates.cpp_graph import CppGraph
from forkwheel.gates.cuda_gates import CppFile, CudaFindings
from forkwheel.gates.files import PYTHON, SourceFile, list_files
from forkwheel.gates.model import Audit, Entry, Layer
from forkwheel.gates.paths import Paths
from forkwheel.gates.python_gates import PythonFindings, find_python_gates
from forkwheel.store import Store, write_whole

# Raised whenever the same sources may give other gates: what is in the cache is then not used.
ANALYSER = 1


def audit(
    roots: Mapping[str, Path],
    *,
    target: Arch,
    references: tuple[Arch, ...],
    entries: Sequence[Entry] = (),
    layers: Sequence[Layer] = (),
    store: Store | None = None,
) -> Audit:
    """Find the gates of some trees; with a ``store``, trees that were audited before are not read again.

    Raise UsageError where an entry does not exist.
    """
    files = list_files(roots)
    folders = tuple((name, str(root)) for name, root in roots.items())
    slot = _slot(store, files, (ANALYSER, target, references, tuple(entries), tuple(layers))) if store else None
    if slot is not None and (known := _read(slot)) is not None:
        return audit_from_json(known, roots=folders)
    python, cuda = _find(files, target=target, references=references, store=store)
    paths = Paths(python.interpreter, CppGraph(_cpp_files(files)), cuda.exports)
    paths.follow(entries)
    gates = (*python.gates, *cuda.gates)
    found = Audit(
        target=target,
        references=references,
        gates=gates,
        path=paths.steps(gates, entries, layers),
        failures=(*python.failures, *cuda.failures),
        roots=folders,
    )
    if slot is not None:
        write_whole(slot, json.dumps(audit_to_json(found)).encode())
    return found


def _cpp_files(files: list[SourceFile]) -> list[CppFile]:
    return [CppFile(file.root, file.path, file.text) for file in files if not _is_python(file)]


def _is_python(file: SourceFile) -> bool:
    return file.path.endswith(PYTHON)


def _find(
    files: list[SourceFile], *, target: Arch, references: tuple[Arch, ...], store: Store | None
) -> tuple[PythonFindings, CudaFindings]:
    others = [file for file in files if not _is_python(file)]
    slot = _slot(store, others, (ANALYSER, target, references)) if store else None
    known = _read(slot) if slot is not None else None
    worker = _start_worker(others, target=target, references=references) if known is None else None
    texts: dict[str, dict[str, str]] = {}
    for file in files:
        if _is_python(file):
            texts.setdefault(file.root, {})[file.path] = file.text()
    archs = universe(target, references)
    try:
        python = find_python_gates(texts, archs=archs, target=target, references=references)
    except BaseException:
        if worker is not None:
            worker.kill()
            worker.wait()
        raise
    if worker is not None:
        known = _answer(worker)
        if slot is not None:
            write_whole(slot, json.dumps(known).encode())
    assert known is not None
    return python, findings_from_json(known)


def _start_worker(files: list[SourceFile], *, target: Arch, references: tuple[Arch, ...]) -> subprocess.Popen[str]:
    request = {
        "files": [[file.root, file.path, str(file.file.absolute())] for file in files],
        "target": str(target),
        "references": [str(arch) for arch in references],
    }
    command = [sys.executable, "-m", "forkwheel.gates.cuda_worker"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdin is not None
    json.dump(request, worker.stdin)
    worker.stdin.close()
    return worker


def _answer(worker: subprocess.Popen[str]) -> dict[str, Any]:
    assert worker.stdout is not None
    with worker.stdout:
        text = worker.stdout.read()
    if worker.wait():
        raise VerificationError(
            "the C++ part of the gate audit failed", hint="its traceback is above; please report it"
        )
    answer: dict[str, Any] = json.loads(text)
    return answer


def _slot(store: Store, files: list[SourceFile], settings: tuple[object, ...]) -> Path:
    digest = hashlib.sha256(repr(settings).encode())
    for file in files:
        digest.update(f"{file.root}\0{file.path}\0{file.digest}\n".encode("utf-8", "surrogateescape"))
    return store.path("audits", f"{digest.hexdigest()}.json")


def _read(slot: Path) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = json.loads(slot.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return data
