"""Audit what the path leads to, and nothing else: a build has a second for it."""

from __future__ import annotations

from collections.abc import Sequence

from forkwheel.gates.arch import universe
from forkwheel.gates.cpp_graph import CppGraph, find_exports, may_export
from forkwheel.gates.cuda_gates import CppFile
from forkwheel.gates.cuda_worker import find_cuda_gates
from forkwheel.gates.discover import Discovery
from forkwheel.gates.files import FileKey, SourceFile
from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.model import Audit, Gate, Question
from forkwheel.gates.modules import Module, Modules
from forkwheel.gates.paths import Paths
from forkwheel.gates.python_gates import Recorder

_ROUNDS = 12


def audit_paths(states: Sequence[Sequence[SourceFile]], question: Question) -> list[Audit]:
    """Find the gates on the path in several states of some trees, which share their files."""
    shelf = _Shelf()
    return [_audit_path(files, question, shelf) for files in states]


class _Shelf:
    """Files that were read already."""

    def __init__(self) -> None:
        self.modules: dict[FileKey, Module] = {}
        self._cpp: dict[FileKey, CppFile] = {}
        self._exporting: dict[FileKey, bool] = {}

    def cpp(self, file: SourceFile) -> CppFile:
        """Return a C++ file."""
        return self._cpp.setdefault(file.key, CppFile(file.root, file.path, file.text))

    def exports(self, file: SourceFile) -> bool:
        """Tell whether a C++ file may hand functions to Python."""
        if file.key not in self._exporting:
            self._exporting[file.key] = may_export(file.read())
        return self._exporting[file.key]


def _audit_path(files: Sequence[SourceFile], question: Question, shelf: _Shelf) -> Audit:
    others = [file for file in files if not file.is_python]
    exports = tuple(find_exports(shelf.cpp(file) for file in others if shelf.exports(file)))
    graph = CppGraph(shelf.cpp(file) for file in others)
    interpreter = Interpreter(
        Modules((file for file in files if file.is_python), shelf.modules),
        universe(question.target, question.references),
    )
    discovery = Discovery(interpreter)
    for _ in range(_ROUNDS):
        seen = len(interpreter.seen)
        paths = Paths(interpreter, graph, exports)
        discovery.extend(interpreter.seen)
        paths.follow(question.entries)
        python = _python_gates(interpreter, paths, question) if seen == len(interpreter.seen) else ()
        if seen == len(interpreter.seen):
            break
    paths.cross()
    cuda = find_cuda_gates(graph.reached_files(), question)
    steps = paths.steps((*python, *cuda.gates), question.entries, question.layers)
    broken = [failure for module in interpreter.seen for failure in module.failures]
    return Audit(
        target=question.target,
        references=question.references,
        gates=tuple(step.gate for step in steps),
        path=steps,
        failures=(*broken, *cuda.failures),
        files=tuple(files),
    )


def _python_gates(interpreter: Interpreter, paths: Paths, question: Question) -> tuple[Gate, ...]:
    archs = interpreter.archs
    recorder = Recorder(interpreter, tuple(archs.index(arch) for arch in (question.target, *question.references)))
    starts = [paths.entry(entry).key for entry in question.entries]
    recorder.run_path([*paths.reached, *starts], paths.reached_variables)
    return recorder.gates
