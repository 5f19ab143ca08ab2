"""Gates of C++ and CUDA sources, on small files."""

from __future__ import annotations

import textwrap
import time
from functools import partial

import pytest

from forkwheel.gates.arch import Arch, universe
from forkwheel.gates.cuda_gates import CppFile, Sections
from forkwheel.gates.cuda_host import HostChecks
from forkwheel.gates.model import Gate

TARGET = Arch(12, 0)
REFERENCES = (Arch(9, 0), Arch(10, 0))
ARCHS = universe(TARGET, REFERENCES)
KERNEL = "__global__ void k(int* p) {\n%s\n}\n"


def files(**texts: str) -> list[CppFile]:
    return [CppFile("tree", f"{name}.cuh", partial(textwrap.dedent, text)) for name, text in texts.items()]


def sections(**texts: str) -> list[Gate]:
    concerned = tuple(ARCHS.index(arch) for arch in (TARGET, *REFERENCES))
    found = Sections(files(**texts), ARCHS, concerned).find()
    return [gate for gate in found if gate.differs(TARGET, REFERENCES)]


def checks(**texts: str) -> list[Gate]:
    return [gate for gate in HostChecks(files(**texts), ARCHS).find() if gate.differs(TARGET, REFERENCES)]


def admitted(gate: Gate) -> str:
    return " ".join(arch for arch in gate.admitted if arch in ("9.0", "10.0", "12.0"))


CONDITIONS = {
    "#if __CUDA_ARCH__ >= 1000": "10.0 12.0",
    "#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))": "9.0 10.0",
    "#if defined(__CUDA_ARCH_FEAT_SM90_ALL)": "9.0",
    "#ifdef __CUDA_ARCH_FEAT_SM100_ALL": "10.0",
    "#ifndef __CUDA_ARCH_FEAT_SM90_ALL": "10.0 12.0",
    "#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ == 1000": "10.0",
    "#if !(__CUDA_ARCH__ == 1200)": "9.0 10.0",
    "#if __CUDA_ARCH__ >= 1200 \\\n    || __CUDA_ARCH__ == 900": "9.0 12.0",
    "#  if  __CUDA_ARCH__ / 100 == 9  // a comment": "9.0",
    "#if defined(FEATURE) && __CUDA_ARCH__ >= 1200": "12.0",
    "#if CUDA_VERSION >= 12080 && __CUDA_ARCH__ == 1000": "10.0",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_is_evaluated_for_each_architecture(condition: str) -> None:
    (gate,) = sections(a=f"{condition}\nint x;\n#endif\n")

    assert admitted(gate) == CONDITIONS[condition]


@pytest.mark.parametrize(
    "text",
    [
        "#if __CUDA_ARCH__ >= 900\nint x;\n#endif",
        "#if defined(__CUDA_ARCH__)\nint x;\n#endif",
        "// #if __CUDA_ARCH__ >= 1200\nint x;\n//#endif",
        "/*\n#if __CUDA_ARCH__ >= 1200\n#endif\n*/",
        "#if defined(USE_ROCM) && __CUDA_ARCH__ >= 1200\n#endif",
        "#ifdef USE_ROCM\n#if __CUDA_ARCH__ >= 1200\n#endif\n#endif",
        "#if __CUDA_ARCH__ >= 800\n#elif __CUDA_ARCH__ >= 1200\n#endif",
        'char const* s = "__CUDA_ARCH__ >= 1200";',
    ],
)
def test_what_does_not_differ_is_no_gate(text: str) -> None:
    assert sections(a=text) == []


def test_a_macro_that_depends_on_the_architecture_is_followed_into_other_files() -> None:
    gates = sections(
        config="""
        #if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
        #define HAS_WGMMA
        #endif
        #if __CUDA_ARCH__ >= 1200
        #define LEVEL 2
        #else
        #define LEVEL 1
        #endif
        """,
        use="""
        #ifdef HAS_WGMMA
        int a;
        #endif
        #if LEVEL > 1
        int b;
        #endif
        """,
    )

    found = {(gate.place.path, gate.place.line): admitted(gate) for gate in gates}
    assert found[("use.cuh", 2)] == "9.0"
    assert found[("use.cuh", 5)] == "12.0"


CONTENTS = {
    "the whole body of kernel k": "#if __CUDA_ARCH__ < 1200\n  p[0] = 1;\n  p[1] = 2;\n#endif",
    "a grid-dependency call": "  p[0] = 1;\n#if __CUDA_ARCH__ < 1200\n  cudaGridDependencySynchronize();\n#endif",
    "inline assembly": '  p[0] = 1;\n#if __CUDA_ARCH__ < 1200\n  asm volatile("mov.u32 %0, 1;" : "=r"(p[0]));\n#endif',
    "another way": "  p[0] = 1;\n#if __CUDA_ARCH__ < 1200\n  p[1] = 2;\n#else\n  p[1] = 3;\n#endif",
    "an error": "  p[0] = 1;\n#if __CUDA_ARCH__ >= 1200\n  __trap();\n#endif",
}


@pytest.mark.parametrize("expected", CONTENTS)
def test_an_emptied_kernel_is_told_from_a_lost_instruction(expected: str) -> None:
    (gate,) = sections(a=KERNEL % CONTENTS[expected])

    assert gate.holds == expected
    assert gate.symbol == "k"


def test_a_body_whose_other_branch_only_complains_is_a_whole_body() -> None:
    body = '#if __CUDA_ARCH__ < 1200\n  p[0] = 1;\n#else\n  printf("no");\n  __trap();\n#endif'

    (gate,) = sections(a=KERNEL % body)

    assert gate.holds == "the whole body of kernel k"


GET_SM = """
    inline int getSMVersion() {
      int device{-1}, major = 0, minor = 0;
      CHECK(cudaGetDevice(&device));
      CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
      CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
      return major * 10 + minor;
    }
"""

HOST = {
    "static int SM = utils::getSMVersion();\n  if (SM >= 100) { go(); }": "10.0 12.0",
    "int const sm = getSMVersion();\n  bool fast = (sm == 90 || sm == 100) && wanted;": "9.0 10.0",
    "if (getSMVersion() != 90) { return; }": "10.0 12.0",
    "auto sm = getSMVersion();\n  switch (sm) { case 90: a(); break; case 100: b(); break; default: c(); }": "9.0 10.0",
    "auto sm = getSMVersion();\n  ICHECK_EQ(sm, 90) << 1;": "9.0",
    'auto sm = getSMVersion();\n  if (sm < 120 && !isValid<T, W>()) { throw std::logic_error("no"); }': "9.0 10.0 12.0",
    "cudaDeviceProp p;\n  cudaGetDeviceProperties(&p, 0);\n  int n = p.major == 12 ? 1 : 2;": "12.0",
    "cudaDeviceProp p;\n  int arch = p.major * 10 + p.minor;\n  while (arch == 100) { go(); }": "10.0",
}


@pytest.mark.parametrize("body", HOST)
def test_a_check_on_the_host_is_found(body: str) -> None:
    (gate,) = checks(a=GET_SM, b=f"void f(bool wanted) {{\n  {body}\n}}\n")

    assert gate.kind == "host"
    assert admitted(gate) == HOST[body]


def test_members_and_arguments_carry_the_architecture() -> None:
    gates = checks(
        a=GET_SM,
        b="""
        struct Runner {
          Runner() { sm_ = getSMVersion(); }
          void run() { if (sm_ == 90) { fast(); } }
          int sm_;
        };
        bool supportsThis(int sm, bool x) { return sm >= 120; }
        void g() { supportsThis(getSMVersion(), true); }
        """,
    )

    assert sorted((gate.place.line, admitted(gate)) for gate in gates) == [(4, "9.0"), (7, "12.0")]


@pytest.mark.parametrize(
    "text",
    [
        "void f(int sm_count, float sm_scale) { if (sm_count > 100 && sm_scale > 9) go(); }",
        "void f() { int sm = getSMVersion(); if (sm >= 80) go(); }",
        '// if (getSMVersion() == 90)\nvoid f() { puts("getSMVersion() == 90"); }',
        "void f() { int sm = getSMVersion(); log(sm); }",
        "void f(int n) { for (int i = 0; i < n; ++i) go(); }",
    ],
)
def test_look_alikes_on_the_host_are_no_gates(text: str) -> None:
    assert checks(a=GET_SM, b=text) == []


@pytest.mark.parametrize(
    "text",
    [
        "#if __CUDA_ARCH__ >= 1200\nint x;",
        "#endif\n#else\n#elif __CUDA_ARCH__\n",
        "#if\n#endif",
        "#if __CUDA_ARCH__ >=\n#endif",
        "#if ((((\n#endif\n",
        "#define\n#ifdef\n#endif",
        "\x00\xff{{{{ #if __CUDA_ARCH__",
    ],
)
def test_broken_files_do_not_stop_the_audit(text: str) -> None:
    sections(a=text)
    checks(a=text)


def test_a_function_is_followed_into_where_it_is_defined_not_where_it_is_called() -> None:
    ask = "int sm() { int v; cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 0); choose(v); return 0; }\n"
    define = "int choose(int given) {\n  if (given == 9) { return 1; }\n  return 0;\n}\n"
    call = "int other() { return choose(7); }\n" * 3

    found = files(a=ask, b=define, c=call)
    gates = list(HostChecks(found, ARCHS).find())

    assert [(gate.place.path, gate.place.line) for gate in gates] == [("b.cuh", 2)]
    assert ["syntax" in vars(file) for file in found] == [True, True, False]


def test_a_name_that_too_many_files_have_is_not_followed() -> None:
    ask = "void S::f() { int v; cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 0); prop = v; }\n"
    use = "bool g() { return prop == 9; }\n"

    few = [gate.place.path for gate in checks(a=ask, **{f"b{i}": use for i in range(3)})]
    many = [gate.place.path for gate in checks(a=ask, **{f"b{i}": use for i in range(300)})]

    assert few == ["b0.cuh", "b1.cuh", "b2.cuh"]
    assert many == []


def test_a_long_function_with_many_sections_is_read_in_time() -> None:
    section = "#if __CUDA_ARCH__ >= 1000\n  p[0] = 1;\n#endif\n"
    body = ("  p[1] = 2; // some more of it\n" * 200 + section) * 200

    started = time.process_time()
    found = sections(a=KERNEL % body)

    assert len(found) == 200
    assert time.process_time() - started < 10
