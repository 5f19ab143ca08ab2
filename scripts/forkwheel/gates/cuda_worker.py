"""Find the gates of C++ and CUDA sources in a process of its own, beside the Python sources'.

Reads the files' names as JSON from standard input and writes the gates to standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from forkwheel.gates.arch import Arch, parse_arch, universe
from forkwheel.gates.codec import findings_to_json
from forkwheel.gates.cpp_graph import find_exports
from forkwheel.gates.cuda_gates import CppFile, CudaFindings, Sections
from forkwheel.gates.cuda_host import HostChecks
from forkwheel.gates.files import SourceFile


def find_cuda_gates(files: list[SourceFile], *, target: Arch, references: tuple[Arch, ...]) -> CudaFindings:
    """Find the conditional sections and the host checks that depend on the architecture."""
    archs = universe(target, references)
    loaded = [CppFile(file.root, file.path, file.text) for file in files]
    concerned = tuple(archs.index(arch) for arch in (target, *references))
    gates = [*Sections(loaded, archs, concerned).find(), *HostChecks(loaded, archs).find()]
    unique = {(gate.place, gate.condition): gate for gate in gates}
    failures = tuple(failure for file in loaded for failure in file.failures)
    ordered = sorted(unique.values(), key=lambda gate: (gate.place, gate.condition))
    return CudaFindings(tuple(ordered), failures, tuple(find_exports(loaded)))


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    files = [SourceFile(root, path, Path(file), "") for root, path, file in request["files"]]
    references = tuple(map(parse_arch, request["references"]))
    found = find_cuda_gates(files, target=parse_arch(request["target"]), references=references)
    json.dump(findings_to_json(found), sys.stdout)


if __name__ == "__main__":
    main()
