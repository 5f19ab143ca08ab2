"""Write audits as JSON and read them back; the cache and the ``--json`` report share the form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forkwheel.gates.arch import parse_arch
from forkwheel.gates.cuda_gates import CudaFindings, Export
from forkwheel.gates.files import SourceFile
from forkwheel.gates.model import Audit, Gate, Place, Step


def gate_to_json(gate: Gate) -> dict[str, Any]:
    """Write a gate."""
    return {
        "tree": gate.place.root,
        "file": gate.place.path,
        "line": gate.place.line,
        "first_line": gate.first,
        "last_line": gate.last,
        "kind": gate.kind,
        "condition": gate.condition,
        "admits": {str(arch): state for arch, state in gate.admits},
        "other_conditions": list(gate.others),
        "symbol": gate.symbol,
        "holds": gate.holds,
        "guarded": list(gate.guarded),
    }


def gate_from_json(data: dict[str, Any]) -> Gate:
    """Read a gate."""
    return Gate(
        place=Place(data["tree"], data["file"], data["line"]),
        first=data["first_line"],
        last=data["last_line"],
        kind=data["kind"],
        condition=data["condition"],
        admits=tuple((parse_arch(arch), state) for arch, state in data["admits"].items()),
        others=tuple(data["other_conditions"]),
        symbol=data["symbol"],
        holds=data["holds"],
        guarded=tuple(data["guarded"]),
    )


def findings_to_json(found: CudaFindings) -> dict[str, Any]:
    """Write what was found in C++ and CUDA sources."""
    return {
        "gates": list(map(gate_to_json, found.gates)),
        "failures": list(found.failures),
        "exports": [[e.name, e.root, e.path, e.function] for e in found.exports],
    }


def findings_from_json(data: dict[str, Any]) -> CudaFindings:
    """Read what was found in C++ and CUDA sources."""
    return CudaFindings(
        gates=tuple(map(gate_from_json, data["gates"])),
        failures=tuple(data["failures"]),
        exports=tuple(Export(*fields) for fields in data["exports"]),
    )


def audit_to_json(audit: Audit) -> dict[str, Any]:
    """Write an audit; a step of the path names its gate by its place in ``gates``."""
    index = {id(gate): number for number, gate in enumerate(audit.gates)}
    return {
        "target": str(audit.target),
        "references": [str(arch) for arch in audit.references],
        "trees": sorted({file.root for file in audit.files}),
        "gates": [gate_to_json(gate) for gate in audit.gates],
        "path": [
            {"gate": index[id(s.gate)], "layer": s.layer, "distance": s.distance, "counts": s.counts}
            for s in audit.path
        ],
        "failures": list(audit.failures),
    }


def audit_from_json(data: dict[str, Any], *, files: Sequence[SourceFile]) -> Audit:
    """Read an audit; ``files`` are those of its trees now."""
    gates = tuple(gate_from_json(gate) for gate in data["gates"])
    steps = (Step(gates[s["gate"]], s["layer"], s["distance"], s["counts"]) for s in data["path"])
    return Audit(
        target=parse_arch(data["target"]),
        references=tuple(map(parse_arch, data["references"])),
        gates=gates,
        path=tuple(steps),
        failures=tuple(data["failures"]),
        files=tuple(files),
    )
