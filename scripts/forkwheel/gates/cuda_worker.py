"""Find the gates of C++ and CUDA sources in a process of its own, beside the Python sources'.

Reads the files' names as JSON from standard input and writes the gates to standard output.
"""

from __future__ import annotations

import base64
import gc
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from forkwheel.gates.arch import parse_arch, universe
from forkwheel.gates.codec import findings_to_json
from forkwheel.gates.cpp_graph import find_exports
from forkwheel.gates.cuda_gates import CppFile, CudaFindings, Sections
from forkwheel.gates.cuda_host import HostChecks
from forkwheel.gates.deep import with_deep_stack
from forkwheel.gates.files import SourceFile
from forkwheel.gates.model import Question


def find_cuda_gates(files: Sequence[CppFile], question: Question) -> CudaFindings:
    """Find the conditional sections and the host checks that depend on the architecture."""
    archs = universe(question.target, question.references)
    concerned = tuple(archs.index(arch) for arch in (question.target, *question.references))
    gates = [*Sections(files, archs, concerned).find(), *HostChecks(files, archs).find()]
    unique = {(gate.place, gate.condition): gate for gate in gates}
    failures = tuple(failure for file in files for failure in file.failures)
    ordered = sorted(unique.values(), key=lambda gate: (gate.place, gate.condition))
    return CudaFindings(tuple(ordered), failures, tuple(find_exports(files)))


def main() -> None:
    """Answer one request: the findings in each state of the trees, which share their files."""
    gc.disable()
    request = json.load(sys.stdin)
    question = Question(parse_arch(request["target"]), tuple(map(parse_arch, request["references"])))
    files = [_file(*fields) for fields in request["files"]]
    states = [[files[number] for number in numbers] for numbers in request["states"]]
    found = with_deep_stack(lambda: [find_cuda_gates(state, question) for state in states])
    json.dump([findings_to_json(each) for each in found], sys.stdout)


def _file(root: str, path: str, digest: str, file: str, content: str | None) -> CppFile:
    source = SourceFile(root, path, digest, Path(file), None if content is None else base64.b64decode(content))
    return CppFile(root, path, source.text)


if __name__ == "__main__":
    main()
