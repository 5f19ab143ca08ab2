"""Python gates, on small trees in every shape in which projects ask for an architecture."""

from __future__ import annotations

import ast
import textwrap

import pytest
from gates_support import sources

from forkwheel.gates.arch import Arch
from forkwheel.gates.late import without_bodies
from forkwheel.gates.model import Gate, Question
from forkwheel.gates.modules import Modules
from forkwheel.gates.python_gates import find_python_gates

TARGET = Arch(12, 0)
REFERENCES = (Arch(9, 0), Arch(10, 0))
QUESTION = Question(TARGET, REFERENCES)


def find(**files: str) -> list[Gate]:
    """Audit files, whose names are given with ``__`` for ``/`` and ``init`` for ``__init__``."""
    paths = {name: name.replace("__", "/").replace("init", "__init__") + ".py" for name in files}
    texts = {paths[name]: textwrap.dedent(text) for name, text in files.items()}
    found = find_python_gates(Modules(sources(texts)), QUESTION)
    return [gate for gate in found.gates if gate.differs(TARGET, REFERENCES)]


def admitted(gate: Gate) -> str:
    shown = {"9.0", "10.0", "12.0"}
    return " ".join(arch for arch in gate.admitted if arch in shown)


SHAPES = {
    "tuple": ("if torch.cuda.get_device_capability() >= (10, 0): go()", "10.0 12.0"),
    "first item": ("if torch.cuda.get_device_capability()[0] == 9: go()", "9.0"),
    "unpacked": ("major, minor = torch.cuda.get_device_capability()\nif major in (9, 10): go()", "9.0 10.0"),
    "properties": ("if torch.cuda.get_device_properties(0).major < 12: go()", "9.0 10.0"),
    "number": ("a, b = torch.cuda.get_device_capability()\nif a * 10 + b == 120: go()", "12.0"),
    "string": (
        "a, b = torch.cuda.get_device_capability()\narch = f'sm_{a}{b}'\nif arch in ['sm_90', 'sm_100']: go()",
        "9.0 10.0",
    ),
    "set": ("if torch.cuda.get_device_capability()[0] in {10, 12}: go()", "10.0 12.0"),
    "dict": ("if torch.cuda.get_device_capability()[0] in {9: 'a', 10: 'b'}: go()", "9.0 10.0"),
    "walrus": ("if (cc := torch.cuda.get_device_capability())[0] > 10: go()", "12.0"),
    "chained": ("if 90 <= torch.cuda.get_device_capability()[0] * 10 < 120: go()", "9.0 10.0"),
    "assert": ("assert torch.cuda.get_device_capability()[0] == 9", "9.0"),
    "raise": ("if torch.cuda.get_device_capability()[0] not in (9, 10):\n    raise ValueError('no')", "9.0 10.0"),
    "ternary": ("x = 'a' if torch.cuda.get_device_capability()[0] == 10 else 'b'", "10.0"),
    "negated": ("if not torch.cuda.get_device_capability()[0] == 12: go()", "9.0 10.0"),
    "while": ("while torch.cuda.get_device_capability()[0] == 12: go()", "12.0"),
    "any": ("m = torch.cuda.get_device_capability()[0]\nif any(m == x for x in [9, 10]): go()", "9.0 10.0"),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("inside", ["module", "function", "method"])
def test_a_comparison_is_found_in_any_shape(shape: str, inside: str) -> None:
    body, expected = SHAPES[shape]
    text = {
        "module": body,
        "function": "def f():\n" + textwrap.indent(body, "    "),
        "method": "class C:\n    def f(self):\n" + textwrap.indent(body, "        "),
    }[inside]

    gates = find(a="import torch\n" + text)

    assert [admitted(gate) for gate in gates] == [expected]


PREDICATES = """
    from functools import lru_cache, partial
    import torch

    def _check(majors, cuda):
        if not torch.cuda.is_available():
            return False
        return (
            torch.cuda.get_device_capability()[0] in majors
            and tuple(map(int, torch.version.cuda.split(".")[:2])) >= cuda
        )

    is_nine = lru_cache(maxsize=1)(partial(_check, majors=[9], cuda=(12, 3)))
    is_ten = is_also_ten = lru_cache(maxsize=1)(partial(_check, majors=[10], cuda=(12, 8)))
"""


def test_a_predicate_is_followed_through_assignments_partials_and_re_exports() -> None:
    gates = find(
        pkg__init="",
        pkg__utils__init="from pkg.utils.common import *",
        pkg__utils__common=PREDICATES,
        pkg__use="""
            from pkg.utils import is_also_ten, is_nine as hopper
            _is_nine = hopper()
            def admits(tokens):
                return (_is_nine or is_also_ten()) and tokens > 0
        """,
    )

    by_line = {(gate.place.path, gate.place.line): admitted(gate) for gate in gates}
    assert by_line[("pkg/utils/common.py", 13)] == "9.0"
    assert by_line[("pkg/utils/common.py", 14)] == "10.0"
    assert by_line[("pkg/use.py", 3)] == "9.0"
    assert by_line[("pkg/use.py", 5)] == "9.0 10.0"


def test_the_other_conditions_stay_symbolic_and_are_shown() -> None:
    (gate,) = find(
        a="""
        import torch
        def f(self, tp_size):
            if (
                tp_size > 1
                and torch.cuda.get_device_capability()[0] == 9
                and not self.dp
            ):
                self.fused = True
        """
    )

    assert gate.place.line == 6
    assert (gate.first, gate.last) == (5, 7)
    assert gate.others == ("tp_size > 1", "not self.dp")
    assert gate.state(Arch(9, 0)) == "depends"
    assert gate.state(TARGET) == "no"
    assert "fused" in gate.guarded


def test_a_list_passed_as_an_argument_is_judged_by_what_is_looked_for_in_it() -> None:
    gates = find(
        flags="""
        import torch
        class Context:
            def __init__(self):
                self.archs = set()
                for device in range(torch.cuda.device_count()):
                    major, minor = torch.cuda.get_device_capability(device)
                    self.archs.add((int(major), str(minor)))
            def flags(self, wanted=None):
                return [a for a in self.archs if a[0] in wanted]
        context = Context()
        """,
        use="""
        from flags import context
        def module():
            return context.flags(wanted=[9, 10])
        def other():
            return context.flags(wanted=[9, 10, 12])
        def unrelated():
            return sorted([9, 10])
        """,
    )

    assert [(g.place.path, g.place.line, g.kind, admitted(g)) for g in gates] == [
        ("flags.py", 10, "undecided", "9.0 10.0 12.0"),
        ("use.py", 4, "list", "9.0 10.0"),
    ]


def test_a_decorator_that_declares_capabilities_is_a_gate() -> None:
    gates = find(
        a="""
        def supported_compute_capability(supported_ccs):
            def mark(function):
                function.ccs = set(supported_ccs)
                return function
            return mark

        @supported_compute_capability([100, 103])
        def kernel(x): ...

        @supported_compute_capability([90, 100, 120])
        def everywhere(x): ...
        """
    )

    assert [(gate.place.line, admitted(gate)) for gate in gates] == [(8, "10.0")]


def test_platform_attributes_are_followed_through_getattr() -> None:
    gates = find(
        common=PREDICATES,
        platform_facts="""
        _PROBES = {"is_sm90": "is_nine", "is_sm100": "is_ten"}
        class Platform:
            def __init__(self):
                object.__setattr__(self, "_overrides", {})
            def __getattr__(self, name):
                probe = _PROBES.get(name)
                if probe is None:
                    raise AttributeError(name)
                overrides = object.__getattribute__(self, "_overrides")
                if name in overrides:
                    return overrides[name]
                import common
                return getattr(common, probe)()
        _PLATFORM = Platform()
        def get_platform():
            return _PLATFORM
        """,
        use="""
        from platform_facts import get_platform
        def resolve():
            if not (get_platform().is_sm90 or get_platform().is_sm100):
                raise ValueError("no")
        """,
    )

    (gate,) = [gate for gate in gates if gate.place.path == "use.py"]
    assert admitted(gate) == "9.0 10.0"
    assert gate.holds == "an error"


def test_what_a_caller_passes_reaches_the_callee() -> None:
    gates = find(
        a="""
        import torch
        def detect():
            major = torch.cuda.get_device_capability()[0]
            return {"sm90": major == 9, "sm100": major == 10}
        def modules(capabilities):
            has_sm100 = capabilities.get("sm100", False)
            if has_sm100:
                build()
        def main():
            modules(detect())
        """
    )

    assert (8, "10.0") in [(gate.place.line, admitted(gate)) for gate in gates]


def test_enumerations_and_class_attributes_are_read() -> None:
    gates = find(
        a="""
        import enum, torch
        class Sm(enum.IntEnum):
            HOPPER = 9
            BLACKWELL = 10
        class Kernel:
            MAJORS = (9, 10)
            def usable(self):
                major = torch.cuda.get_device_capability()[0]
                return major in self.MAJORS
        def f():
            if torch.cuda.get_device_capability()[0] >= Sm.BLACKWELL:
                go()
        """
    )

    assert [(gate.place.line, admitted(gate)) for gate in gates] == [(10, "9.0 10.0"), (12, "10.0 12.0")]


LOOK_ALIKES = """
    import torch
    # if torch.cuda.get_device_capability()[0] == 9: only a comment
    MESSAGE = "get_device_capability()[0] == 9"
    def is_hip():
        return torch.version.hip is not None
    def f(sm_scale, sm_count, major):
        if sm_scale > 9 or sm_count == 120 or major == "row":
            go()
        if is_hip() and torch.cuda.get_device_capability() == (9, 0):
            go()
        if torch.cuda.get_device_capability()[0] >= 8:
            go()
        if torch.cuda.get_device_capability()[0] in (9, 10, 12):
            go()
        if torch.cuda.get_device_properties(0).multi_processor_count > 100:
            go()
        gfx942 = "gfx942" in torch.cuda.get_device_properties(0).gcnArchName
        print(torch.cuda.get_device_capability())
        return gfx942
"""


def test_look_alikes_are_no_gates() -> None:
    assert find(a=LOOK_ALIKES) == []


def test_branches_that_are_open_to_all_on_one_condition_or_another_are_no_gates() -> None:
    gates = find(
        a="""
        import torch
        def f(x, y):
            major = torch.cuda.get_device_capability()[0]
            if (major == 9 and x) or (major == 10 and y) or (major == 12 and x):
                go()
        """
    )

    assert gates == []


def test_a_floor_that_only_the_caller_knows_is_undecided() -> None:
    (gate,) = find(
        a="""
        import torch
        def f(config):
            major, minor = torch.cuda.get_device_capability()
            if major * 10 + minor < config.minimum():
                raise ValueError
        """
    )

    assert gate.kind == "undecided"


def test_a_file_that_does_not_parse_is_reported_and_the_rest_goes_on() -> None:
    texts = {
        "bad.py": "import torch\ndef f(:\n    torch.cuda.get_device_capability()\n",
        "good.py": "import torch\nif torch.cuda.get_device_capability()[0] == 9: pass\n",
    }

    found = find_python_gates(Modules(sources(texts)), QUESTION)

    assert len(found.gates) == 1
    assert [failure.split(" ")[0] for failure in found.failures] == ["bad.py:2:"]


@pytest.mark.parametrize(
    "text",
    [
        "f = lambda: f()\nif f() == torch.cuda.get_device_capability(): pass",
        "def f(n): return f(n - 1) + torch.cuda.get_device_capability()[0]\nx = f(3) == 9",
        "class A(A): x = torch.cuda.get_device_capability()\nA().x == 1",
        "x = [torch.cuda.get_device_capability()] * 10 ** 12\nif x[0] == 9: pass",
        "x = {**{}, 'a': torch.cuda.get_device_capability()}\nif x['a'] == 9: pass",
        "if torch.cuda.get_device_capability() < 'abc': pass",
        "major, (minor, *rest) = torch.cuda.get_device_capability()\nif rest == 9: pass",
        "if {torch.cuda.get_device_capability(): [1]}[(9, [])]: pass",
        "match torch.cuda.get_device_capability():\n    case (9, 0): pass",
        "async def f():\n    async for x in y: assert torch.cuda.get_device_capability()[0] == z",
    ],
)
def test_odd_programs_do_not_stop_the_audit(text: str) -> None:
    find(a="import torch\n" + text)


def test_functions_that_all_call_each_other_come_to_an_end() -> None:
    names = [f"f{number}" for number in range(12)]
    body = "\n".join(
        f"def {name}(x):\n    if x.a: return torch.cuda.get_device_capability()\n    return "
        + " or ".join(f"{other}(x + {number})" for number, other in enumerate(names))
        for name in names
    )

    gates = find(a=f"import torch\n{body}\nif f0(1)[0] == 9: pass\n")

    assert [admitted(gate) for gate in gates] == ["9.0"]


def test_an_undecided_suffix_does_not_hide_the_major_version() -> None:
    gates = find(
        a="""
        import torch, os
        def normalise(major, minor):
            if major == 12:
                if os.environ.get("NEW"):
                    return (major, "0f")
                return (major, "0a")
            return (major, str(minor))
        class Context:
            def __init__(self):
                self.archs = set()
                major, minor = torch.cuda.get_device_capability()
                self.archs.add(normalise(major, minor))
            def flags(self, wanted=None):
                return [a for a in self.archs if a[0] in wanted]
        def module():
            return Context().flags(wanted=[9, 10, 12])
        def narrow():
            return Context().flags(wanted=[9, 10])
        """
    )

    assert [(gate.place.line, admitted(gate)) for gate in gates if gate.kind == "list"] == [(19, "9.0 10.0")]


CAPABILITY = "torch.cuda.get_device_capability()"
CLASS = """
from typing import NamedTuple
class Capability(NamedTuple):
    major: int
    minor: int
def capability():
    major, minor = torch.cuda.get_device_capability()
    return Capability(major=major, minor=minor)
"""
MATCHES = {
    "tuple": (f"match {CAPABILITY}:\n    case (9, _): go()", ["9.0"]),
    "alternatives": (f"match {CAPABILITY}[0]:\n    case 9 | 10: go()", ["9.0 10.0"]),
    "nested alternatives": (f"match {CAPABILITY}:\n    case (10, 0 | 3): go()", ["10.0"]),
    "unpacked": (f"major, minor = {CAPABILITY}\nmatch major:\n    case 12: go()", ["12.0"]),
    "star": (f"match {CAPABILITY}:\n    case [12, *rest]: go()", ["12.0"]),
    "captured": (f"match {CAPABILITY}:\n    case (major, _) if major >= 10: go()", ["10.0 12.0"]),
    "guard alone": (f"match x:\n    case 'a' if {CAPABILITY}[0] == 9: go()", ["9.0"]),
    "string": (f"match f'sm_{{{CAPABILITY}[0]}}':\n    case 'sm_9' | 'sm_10': go()", ["9.0 10.0"]),
    "bool": (f"match {CAPABILITY}[0] == 9:\n    case True: go()", ["9.0"]),
    "two subjects": (f"match {CAPABILITY}[0], mode:\n    case 9, 'fast': go()", ["9.0"]),
    "one after another": (
        f"match {CAPABILITY}[0]:\n    case 9: go()\n    case 10: go()\n    case _: raise ValueError",
        ["9.0", "10.0"],
    ),
    "refusing": (f"match {CAPABILITY}[0]:\n    case 12: raise ValueError\n    case _: go()", ["9.0 10.0"]),
    "never come to": (f"match {CAPABILITY}[0]:\n    case int(): go()\n    case 9: go()", []),
    "another length": (f"match {CAPABILITY}:\n    case (9, 0, 0): go()", []),
    "keywords of a class": ("match capability():\n    case Capability(major=9): go()", ["9.0"]),
    "places of a class": ("match capability():\n    case Capability(10, _): go()", ["10.0"]),
    "mapping": (f"match {{'sm': {CAPABILITY}[0]}}:\n    case {{'sm': 9}}: go()", ["9.0"]),
    "unknown": ("match x:\n    case (9, _): go()", []),
}


@pytest.mark.parametrize("shape", MATCHES)
@pytest.mark.parametrize("inside", ["module", "function"])
def test_the_cases_of_a_match_are_gates(shape: str, inside: str) -> None:
    body, expected = MATCHES[shape]
    text = body if inside == "module" else "def f(x, mode):\n" + textwrap.indent(body, "    ")

    gates = [gate for gate in find(a=f"import torch\n{CLASS}{text}") if gate.condition.startswith("match")]

    assert [admitted(gate) for gate in gates] == expected


def test_a_case_says_what_it_decides_and_what_stands_beside_it() -> None:
    (gate,) = find(
        a="""
        import torch
        def f(self, fast):
            match torch.cuda.get_device_capability():
                case (9 | 10, _) if fast:
                    self.fused = True
                case _:
                    pass
        """
    )

    assert gate.condition == "match torch.cuda.get_device_capability(): case (9 | 10, _)"
    assert (gate.place.line, gate.others, gate.holds) == (5, ("fast",), "a branch that sets fused")
    assert "fused" in gate.guarded


def test_what_a_match_leaves_is_known_afterwards() -> None:
    gates = find(
        a="""
        import torch
        def supported():
            match torch.cuda.get_device_capability()[0]:
                case 9 | 10:
                    return True
                case _:
                    return False
        def level():
            match torch.cuda.get_device_capability()[0]:
                case 9:
                    number = 1
                case _:
                    number = 2
            return number
        if supported(): go()
        if level() == 2: go()
        """
    )

    by_line = {gate.place.line: admitted(gate) for gate in gates}
    assert (by_line[16], by_line[17]) == ("9.0 10.0", "10.0 12.0")


@pytest.mark.parametrize("indent", ["", "    ", "\t"], ids=["top", "method", "tabs"])
@pytest.mark.parametrize("head", ["def f(self, x=(1, 2)):", "@a\n@b(1)\nasync def f(self):", "def f(\n  self,\n):"])
def test_a_body_that_is_parsed_late_is_what_it_would_have_been(head: str, indent: str) -> None:
    body = [
        "if x:",
        "    s = '''a\n b \u00e9'''; t = 'é' + s",
        "    def g(): return 2",
        *["y = 1"] * 20,
        "return y",
    ]
    lines = [*head.split("\n"), *(f"    {line}" for line in body)]
    text = "\n".join(f"{indent}{line}" for line in lines)
    text = f"# é\nclass C:\n{text}\nz = 1\n" if indent else f"# é\n{text}\nz = 1\n"
    whole = text.split("\n")

    late = without_bodies(ast.parse(text), lambda first, last: whole[first - 1 : last])

    function = next(node for node in ast.walk(late) if getattr(node, "name", "") == "f")
    assert "body" not in vars(function)
    assert ast.dump(late, include_attributes=True) == ast.dump(ast.parse(text), include_attributes=True)
