"""Trees that nobody meant to be audited: no traceback, the right exit status, and the gates all the same."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from forkwheel import cli

NINE = "import torch\nif torch.cuda.get_device_capability()[0] == 9: pass\n"
GUARD = "__global__ void k(int* p) {\n#if __CUDA_ARCH__ < 1200\n  p[0] = 1;\n#endif\n}\n"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(["audit", *arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    root.mkdir(exist_ok=True)
    return root


def nested(levels: int) -> str:
    return "#ifdef A\n" * levels + GUARD + "#endif\n" * levels


# Files, the gates that differ, and what the failures begin with.
TREES: dict[str, tuple[dict[str, str | bytes], list[str], list[str]]] = {
    "nothing": ({}, [], []),
    "no source": ({"README.md": "x", "a.txt": NINE}, [], []),
    "does not parse": ({"bad.py": "def f(:\n  get_device_capability()", "a.py": NINE}, ["a.py:2"], ["bad.py:1"]),
    "syntax of 3.12": (
        {"a.py": f"type X[T] = list[T]\ndef f[T](x: T) -> T: return x\n{NINE}"},
        ["a.py:4"] if sys.version_info >= (3, 12) else [],
        [] if sys.version_info >= (3, 12) else ["a.py:1"],
    ),
    "null byte": ({"a.py": b"import torch\0\nget_device_capability()", "b.py": NINE}, ["b.py:2"], ["a.py:1"]),
    "Latin-1 that is declared": (
        {
            "a.py": "# -*- coding: latin-1 -*-\nimport torch\ngr\u00f6\u00dfe = 'gr\u00fcn'\n".encode("latin-1")
            + NINE.encode()
        },
        ["a.py:5"],
        [],
    ),
    "Latin-1 that is not": ({"a.py": "# Gr\u00f6\u00dfe\n".encode("latin-1") + NINE.encode()}, ["a.py:3"], []),
    "an encoding that is unknown": ({"a.py": f"# coding: klingon\n{NINE}"}, ["a.py:3"], []),
    "a byte order mark": ({"a.py": b"\xef\xbb\xbf" + NINE.encode()}, ["a.py:2"], []),
    "line ends of Windows": (
        {"a.py": NINE.replace("\n", "\r\n"), "b.cu": GUARD.replace("\n", "\r\n")},
        ["a.py:2", "b.cu:2"],
        [],
    ),
    "line ends of old Macs": (
        {"a.py": NINE.replace("\n", "\r"), "b.cu": GUARD.replace("\n", "\r")},
        ["a.py:2", "b.cu:2"],
        [],
    ),
    "form feed": ({"a.py": f"x = 1\n\x0c\n{NINE}"}, ["a.py:4"], []),
    "5 MB of generated code": ({"a.py": "x = [\n" + "  0x12345678,\n" * 400_000 + f"]\n{NINE}"}, ["a.py:400004"], []),
    "nested too deep to parse": (
        {"a.py": "x = get_device_capability(" + "(" * 5000, "b.py": NINE},
        ["b.py:2"],
        ["a.py:1"],
    ),
    "a deep expression": (
        {"a.py": "import torch\nx = " + "+".join(["1"] * 900) + "\ny = get_device_capability()\n" + NINE},
        ["a.py:5"],
        [],
    ),
    "a long chain of elif": (
        {
            "a.py": "import torch\nm = torch.cuda.get_device_capability()[0]\nif m == 9: pass\n"
            + "".join(f"elif n == {i}: pass\n" for i in range(400))
        },
        ["a.py:3"],
        [],
    ),
    "imports in a circle": (
        {
            "a.py": f"from b import *\nfrom b import nine\n{NINE}",
            "b.py": "from a import *\nfrom a import nine\nif nine(): pass\n",
        },
        ["a.py:4"],
        [],
    ),
    "a package that exports itself": (
        {
            "p/__init__.py": "from p import *\nfrom p.p import *\nfrom . import p\n",
            "p/p.py": f"from p import *\n{NINE}",
        },
        ["p/p.py:3"],
        [],
    ),
    "a re-export that loops": (
        {"a.py": "from b import x\n", "b.py": "from c import x\n", "c.py": f"from a import x\n{NINE}if x == 9: pass\n"},
        ["c.py:3"],
        [],
    ),
    "a relative import beyond the top": ({"a.py": f"from .... import x\nfrom ....y import *\n{NINE}"}, ["a.py:4"], []),
    "a class that is its own base": ({"a.py": f"class A(A): pass\nclass B(B.C): pass\n{NINE}"}, ["a.py:4"], []),
    "conditional sections 3000 deep": ({"a.cu": nested(3000)}, ["a.cu:3002"], []),
    "#endif without #if": ({"a.cu": f"#endif\n{GUARD}"}, ["a.cu:3"], ["a.cu:1: #endif without #if"]),
    "#if without #endif": ({"a.cu": f"{GUARD}#if __CUDA_ARCH__ >= 900\n"}, ["a.cu:2"], ["a.cu:6: #if without #endif"]),
    "a macro defined twice": (
        {
            "a.cu": "#define SM 90\n#undef SM\n#if __CUDA_ARCH__ >= 1200\n#define SM 12\n#else\n#define SM 9\n#endif\n"
            "#if SM == 9\nint x;\n#endif\n"
        },
        ["a.cu:3", "a.cu:8"],
        [],
    ),
    "a macro of itself": (
        {"a.cu": f"#define A A\n#define B C\n#define C B\n#if A > B\n#endif\n{GUARD}"},
        ["a.cu:7"],
        [],
    ),
    "#elif and defined": (
        {
            "a.cu": "#if defined(X)\n#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 1200\nint y;\n"
            "#elif defined __CUDA_ARCH__\n#else\n#endif\n"
        },
        ["a.cu:2"],
        [],
    ),
    "a condition over several lines": (
        {"a.cu": "#if defined(__CUDA_ARCH__) && \\\n    __CUDA_ARCH__ < 1200\nint x;\n#endif\n"},
        ["a.cu:1"],
        [],
    ),
    "a deep condition": (
        {"a.cu": f"#if {'+'.join(['4'] * 300)} > __CUDA_ARCH__\nint x;\n#endif\n{GUARD}"},
        ["a.cu:1", "a.cu:5"],
        [],
    ),
    "__CUDA_ARCH_LIST__": ({"a.cu": "#if __CUDA_ARCH_LIST__ >= 900\nint x;\n#endif\n"}, [], []),
    "half a string and half a comment": ({"a.cu": f'char* s = "// /*";\n{GUARD}/* no end'}, ["a.cu:3"], []),
    "not C++ at all": ({"a.cu": b"\x7fELF\x00\xff" * 1000, "b.h": b""}, [], []),
    "files that include one another": (
        {"a.cuh": f'#include "b.cuh"\n{GUARD}', "b.cuh": '#include "a.cuh"\n'},
        ["a.cuh:3"],
        [],
    ),
    "odd names": (
        {"a b/\u00e9.py": NINE, "-x.py": NINE, "a.b.py": NINE},
        ["-x.py:2", "a b/\u00e9.py:2", "a.b.py:2"],
        [],
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_an_odd_tree_is_audited_in_every_form(name: str, tmp_path: Path, run: Run) -> None:
    files, gates, failures = TREES[name]
    root, sarif = write(tmp_path / "tree", files), tmp_path / "a.sarif"

    code, out, err = run(str(root), "--json", "--sarif", str(sarif))
    table_code, table, table_err = run(str(root))

    found = json.loads(out)["audit"]
    differing = {
        f"{gate['file']}:{gate['line']}"
        for gate in found["gates"]
        if len({gate["admits"][arch] for arch in ("9.0", "10.0", "12.0")}) > 1
    }
    assert (code, table_code) == (0, 0), err
    assert sorted(differing) == sorted(gates)
    assert [failure[: len(start)] for failure, start in zip(found["failures"], failures, strict=True)] == failures
    assert len(json.loads(sarif.read_bytes())["runs"][0]["results"]) == len(gates)
    assert all(place in table for place in gates)
    assert all(start in table + table_err for start in failures)


@pytest.mark.parametrize("entry", ["a:f", "a:C.f", "a:g"])
def test_an_odd_tree_is_followed_from_an_entry(entry: str, tmp_path: Path, run: Run) -> None:
    text = (
        "from b import *\nclass C:\n    def f(self): return g()\ndef f(): return g()\ndef g(): return f() or nine()\n"
    )
    root = write(
        tmp_path / "tree",
        {
            "a.py": text,
            "b.py": f"from a import *\n{NINE}def nine():\n    return torch.cuda.get_device_capability()[0] == 9\n",
        },
    )

    whole, alone = (run(str(root), "--entry", entry, "--json", *more) for more in ((), ("--path-only",)))

    steps = [
        json.loads(out)["audit"]["gates"][step["gate"]]
        for out in (whole[1], alone[1])
        for step in json.loads(out)["audit"]["path"]
    ]
    assert len(steps) % 2 == 0
    assert steps[: len(steps) // 2] == steps[len(steps) // 2 :]
    assert whole[0] == alone[0]


REFUSED = {
    "no such module": ("--entry", "b:f"),
    "no such function": ("--entry", "a:f"),
    "no function": ("--entry", "a"),
    "half an entry": ("--entry", "a:"),
    "an entry with a path": ("--entry", "../a.py:f"),
    "nothing to follow": ("--path-only",),
    "a word for a target": ("--target", "twelve"),
    "no target": ("--target", ""),
    "no reference": ("--reference", ","),
    "a name that nothing has": ("--explain", "nothing_has_this_name"),
    "a gates.toml that is not there": ("--gates", "absent.toml"),
    "a folder for gates.toml": ("--gates", "tree"),
    "a folder for the report": ("--sarif", "tree"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_line(name: str, tmp_path: Path, run: Run) -> None:
    root = write(tmp_path / "tree", {"a.py": NINE})

    code, _, err = run(str(root), *REFUSED[name])

    assert code in (1, 2)
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("target", "closed"), [("12.0", 7), ("12.0f", 7), ("sm_120a", 7), ("120", 7), ("12", 2), ("9.0", 0), ("8.0", 7)]
)
def test_a_target_is_read_in_every_spelling(target: str, closed: int, tmp_path: Path, run: Run) -> None:
    root = write(
        tmp_path / "tree",
        {"a.py": "import torch\ndef f():\n    if torch.cuda.get_device_capability()[0] == 9: go()\n"},
    )

    code, _, _ = run(str(root), "--target", target, "--entry", "a:f")

    assert code == closed


def test_links_that_loop_and_links_to_nowhere_are_passed_over(tmp_path: Path, run: Run) -> None:
    root = write(tmp_path / "tree", {"a/a.py": NINE})
    (root / "a" / "again").symlink_to(root)
    (root / "loop.py").symlink_to("loop.py")
    (root / "gone.py").symlink_to("nowhere.py")
    (root / "linked.py").symlink_to("a/a.py")

    code, out, _ = run(str(root), "--json")

    assert code == 0
    assert [gate["file"] for gate in json.loads(out)["audit"]["gates"]] == ["a/a.py", "linked.py"]


def test_a_file_that_may_not_be_read_is_an_error_without_a_traceback(tmp_path: Path, run: Run) -> None:
    root = write(tmp_path / "tree", {"a.py": NINE})
    (root / "a.py").chmod(0)

    code, _, err = run(str(root))

    assert code in (0, 1)  # root reads it all the same
    assert code == 0 or err.startswith("error: ")


WHEELS = {
    "Python and CUDA": ({"pkg/a.py": NINE, "pkg/csrc/k.cu": GUARD}, ["pkg/a.py:2", "pkg/csrc/k.cu:2"]),
    "no Python": ({"pkg/csrc/k.cu": GUARD}, ["pkg/csrc/k.cu:2"]),
    "no source": ({"pkg/lib.so": b"\x7fELF"}, []),
}


@pytest.mark.parametrize("name", WHEELS)
def test_a_wheel_file_is_reported_in_every_form(name: str, tmp_path: Path, run: Run) -> None:
    files, gates = WHEELS[name]
    wheel, sarif = tmp_path / "pkg-1-py3-none-any.whl", tmp_path / "a.sarif"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**files, "pkg-1.dist-info/METADATA": "Name: pkg"}.items():
            archive.writestr(path, content)

    code, out, err = run(str(wheel), "--json", "--sarif", str(sarif))

    report = json.loads(sarif.read_bytes())["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in report]
    assert code == 0, err
    assert [f"{gate['file']}:{gate['line']}" for gate in json.loads(out)["audit"]["gates"]] == gates
    assert [f"{p['artifactLocation']['uri']}:{p['region']['startLine']}" for p in places] == gates
