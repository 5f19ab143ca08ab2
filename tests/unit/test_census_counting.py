from __future__ import annotations

import struct
from pathlib import Path

import pytest

from forkwheel.cuda.cubins import ReadingTools, extract_cubins
from forkwheel.cuda.demangle import demangle, family
from forkwheel.cuda.disassembly import count_lines
from forkwheel.errors import VerificationError

LISTING = b"""\
\t.target\tsm_120a

\t.elftype\t@"ET_EXEC"

//--------------------- .text._Z5firstPf --------------------------
\t.section\t.text._Z5firstPf,"ax",@progbits
        .global         _Z5firstPf
_Z5firstPf:
.text._Z5firstPf:
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
        /*0010*/                   ACQBULK ;
        /*0020*/              @!P0 STL [R1], R2 ;
        /*0030*/                   LDL.64 R2, [R1] ;
.L_x_0:
        /*0040*/                   PREEXIT ;
        /*0050*/                   EXIT ;
        /*0060*/                   NOP ;

//--------------------- .text.second --------------------------
        /*0000*/                   EXIT ;
        /*0010*/                   BRA `(.L_x_1) ;
"""

TOOLS = ReadingTools(Path("/no/cuobjdump"), Path("/no/nvdisasm"))


def test_instructions_are_counted_by_kernel() -> None:
    counts = count_lines(LISTING.splitlines(keepends=True))

    first, second = counts["_Z5firstPf"], counts["second"]
    assert (first.instructions, first.waits, first.launches, first.local) == (7, 1, 1, 2)
    assert (second.instructions, second.waits, second.launches, second.local) == (2, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void a::b::kernel<float, 4, (a::Kind)1>(a::Params<float>)", "a::b::kernel"),
        ("a::kernel(float*)", "a::kernel"),
        ("void kernel<a::Less<int, (bool)1> >(int)", "kernel"),
        ("void (anonymous namespace)::kernel<int>(int)", "{anonymous}::kernel"),
        ("plain_c_kernel", "plain_c_kernel"),
        ("void a::outer<int>::kernel<float>(int)", "a::outer::kernel"),
    ],
)
def test_the_family_of_a_kernel_is_its_template(name: str, expected: str) -> None:
    assert family(name) == expected


def test_names_are_demangled() -> None:
    names = demangle(["_ZN1a6kernelIfLi4EEEvPT_", "plain"])

    assert names == {"_ZN1a6kernelIfLi4EEEvPT_": "void a::kernel<float, 4>(float*)", "plain": "plain"}


def cubin(kernels: dict[str, int]) -> bytes:
    """Return the least ELF file that holds a symbol table of kernels and one function that is none."""
    names, symbols = b"\0", struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name, size in {**kernels, "called": -1}.items():
        other = 0 if size < 0 else 0x10
        symbols += struct.pack("<IBBHQQ", len(names), 0x12, other, 1, 0, max(size, 0))
        names += name.encode() + b"\0"
    start = 64 + len(names) + len(symbols)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01A", 2, 190, 1, 0, 0, start, 0, 64, 56, 0, 64, 3, 1)
    sections = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 64 + len(names), len(symbols), 1, 0, 8, 24)
    return header + names + symbols + sections


def test_a_cubin_tells_its_kernels_and_not_what_they_call(tmp_path: Path) -> None:
    (tmp_path / "a.cubin").write_bytes(cubin({"one": 128, "two": 256}))

    (found,) = extract_cubins([tmp_path / "a.cubin"], tools=TOOLS, folder=tmp_path / "work")

    assert [(symbol.name, symbol.index, symbol.size) for symbol in found.kernels] == [("one", 1, 128), ("two", 2, 256)]


@pytest.mark.parametrize("cut", [70, 100, 200])
def test_a_damaged_cubin_is_refused(tmp_path: Path, cut: int) -> None:
    (tmp_path / "a.cubin").write_bytes(cubin({"one": 128})[:cut])

    with pytest.raises(VerificationError, match="not a sound ELF file"):
        extract_cubins([tmp_path / "a.cubin"], tools=TOOLS, folder=tmp_path / "work")


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF"])
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.so").write_bytes(content)

    with pytest.raises(VerificationError, match="not an ELF file"):
        extract_cubins([tmp_path / "a.so"], tools=TOOLS, folder=tmp_path / "work")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="no such file"):
        extract_cubins([tmp_path / "a.so"], tools=TOOLS, folder=tmp_path / "work")
