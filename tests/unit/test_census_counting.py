from __future__ import annotations

import struct
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from forkwheel.cuda import disassembly
from forkwheel.cuda.cubins import ReadingTools, extract_cubins
from forkwheel.cuda.demangle import demangle, family
from forkwheel.cuda.disassembly import Counts, Usage, disassemble, printed_names, usage
from forkwheel.errors import VerificationError

PRINTED = b"""\
\t.headerflags\t@"EF_CUDA_SM120"
.text:
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
        /*0010*/                   ACQBULK ;
        /*0020*/              @!P0 STL [R1], R2 ;
        /*0030*/             @!UP0 LDL.64 R2, [R1] ;
.L_x_0:
       /*10040*/               @P1 PREEXIT ;
        /*0050*/                   EXIT ;
"""


def test_the_names_of_instructions_are_read_without_predicates_and_modifiers() -> None:
    assert printed_names(PRINTED.splitlines()) == [b"LDC", b"ACQBULK", b"STL", b"LDL", b"PREEXIT", b"EXIT"]


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


CODES = {b"w": "ACQBULK", b"l": "PREEXIT", b"s": "@P0 STL [R1], R2", b"n": "NOP"}


def code(letters: str) -> bytes:
    """Return invented instructions, which ``FAKE`` disassembles: 16 times a letter of CODES."""
    return b"".join(letter.encode() * 16 for letter in letters)


FAKE = f"""#!{sys.executable}
import sys
codes = {CODES!r}
content = open(sys.argv[-1], "rb").read()
if "-b" not in sys.argv:
    print("\\t.target\\tsm_120a")
    sys.exit()
assert sys.argv[sys.argv.index("-b") + 1] == "SM120a"
words = [content[start:start + 16] for start in range(0, len(content), 16)]
assert len(set(words)) == len(words)
for number, word in enumerate(words):
    if word[:1] not in codes:
        sys.exit("Unrecognized operation")
    print(f"        /*{{number * 16:04x}}*/                   {{codes[word[:1]]}} ;")
"""


@pytest.fixture
def tools(tmp_path: Path) -> ReadingTools:
    program = tmp_path / "nvdisasm"
    program.write_text(FAKE)
    program.chmod(0o755)
    return ReadingTools(Path("/no/cuobjdump"), program)


def cubin(kernels: dict[str, bytes]) -> bytes:
    """Return the least ELF file that holds the code of kernels, their symbols, and a function that is none."""
    names, symbols, codes = b"\0", struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0), b""
    sections = [(0, 0, 0, 0), (3, 0, 0, 0), (2, 0, 0, 1)]
    for number, (name, text) in enumerate({**kernels, "called": b""}.items()):
        other = 0 if name == "called" else 0x10
        symbols += struct.pack("<IBBHQQ", len(names), 0x12, other, 3 + number, 0, len(text))
        names += name.encode() + b"\0"
        sections.append((1, 64 + len(codes), len(text), 0))
        codes += text
    places = {1: (3, 64 + len(codes), len(names), 0), 2: (2, 64 + len(codes) + len(names), len(symbols), 1)}
    sections = [places.get(number, section) for number, section in enumerate(sections)]
    start = 64 + len(codes) + len(names) + len(symbols)
    header = (b"\x7fELF\x02\x01\x01A", 2, 190, 1, 0, 0, start, 0, 64, 56, 0, 64, len(sections), 1)
    rows = [(0, kind, 0, 0, at, size, link, 0, 0, 0) for kind, at, size, link in sections]
    table = b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)
    return struct.pack("<16sHHIQQQIHHHHHH", *header) + codes + names + symbols + table


@pytest.mark.parametrize("batch", [1, 1 << 20])
def test_instructions_are_counted_by_kernel(
    tmp_path: Path, tools: ReadingTools, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each distinct one is disassembled once, however many kernels of however many files have it."""
    monkeypatch.setattr(disassembly, "_BATCH", batch)
    (tmp_path / "a.cubin").write_bytes(cubin({"one": code("wnnsl"), "two": code("nn")}))
    (tmp_path / "b.cubin").write_bytes(cubin({"one": code("wwl")}))
    files = [tmp_path / "a.cubin", tmp_path / "b.cubin"]

    first, second = disassemble(extract_cubins(files, tools=tools, folder=tmp_path / "work"), tools=tools)

    assert first == {"one": Counts(instructions=5, waits=1, launches=1, local=1), "two": Counts(instructions=2)}
    assert second == {"one": Counts(instructions=3, waits=2, launches=1)}


def test_an_instruction_that_is_none_is_an_error(tmp_path: Path, tools: ReadingTools) -> None:
    (tmp_path / "a.cubin").write_bytes(cubin({"one": code("n?")}))
    cubins = extract_cubins([tmp_path / "a.cubin"], tools=tools, folder=tmp_path / "work")

    with pytest.raises(VerificationError, match="of 2 instructions for sm_120a: Unrecognized operation"):
        disassemble(cubins, tools=tools)


def test_code_that_ends_within_an_instruction_is_an_error(tmp_path: Path, tools: ReadingTools) -> None:
    (tmp_path / "a.cubin").write_bytes(cubin({"one": code("n") + b"n"}))
    cubins = extract_cubins([tmp_path / "a.cubin"], tools=tools, folder=tmp_path / "work")

    with pytest.raises(VerificationError, match=r"a\.cubin: 17 bytes are no whole instructions"):
        disassemble(cubins, tools=tools)


def test_a_cubin_tells_its_kernels_and_not_what_they_call(tmp_path: Path, tools: ReadingTools) -> None:
    (tmp_path / "a.cubin").write_bytes(cubin({"one": code("nn"), "two": code("nnl")}))

    (found,) = extract_cubins([tmp_path / "a.cubin"], tools=tools, folder=tmp_path / "work")

    assert [(symbol.name, symbol.index, symbol.size) for symbol in found.kernels] == [("one", 1, 32), ("two", 2, 48)]
    assert (found.label, found.target) == ("a.cubin", "sm_120a")
    assert [(name, bytes(text)) for name, text in found.code()] == [("one", code("nn")), ("two", code("nnl"))]
    assert list(tmp_path.glob("*.cubin*")) == [tmp_path / "a.cubin"]


def test_files_of_one_name_are_told_apart(tmp_path: Path, tools: ReadingTools) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.cubin").write_bytes(cubin({"one": code("n")}))
    files = [tmp_path / "a" / "one.cubin", tmp_path / "b" / "one.cubin"]

    found = extract_cubins(files, tools=tools, folder=tmp_path / "work")

    assert [each.label for each in found] == [str(file) for file in files]


def wheel(file: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def test_the_objects_in_a_wheel_are_known_by_their_content_too(tmp_path: Path, tools: ReadingTools) -> None:
    one = cubin({"one": code("n")})
    file = wheel(tmp_path / "a-1-py3-none-any.whl", {"a/x.so.13": one, "a/kernel.bin": one, "a/text": b"none"})

    found = extract_cubins([file], tools=tools, folder=tmp_path / "work")

    assert [each.label for each in found] == ["x.so.13", "kernel.bin"]


def test_members_of_one_name_are_told_apart(tmp_path: Path, tools: ReadingTools) -> None:
    one = cubin({"one": code("n")})
    file = wheel(tmp_path / "a-1-py3-none-any.whl", {"a/x.so": one, "b/x.so": one})

    found = extract_cubins([file], tools=tools, folder=tmp_path / "work")

    assert [each.label for each in found] == [f"{file.name}/a/x.so", f"{file.name}/b/x.so"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "holds no machine code for a GPU"),
        ({"a/__init__.py": b"x = 1"}, "holds no machine code for a GPU"),
        ({"a/x.so": b"text", "a/y.so": cubin({"one": code("n")})}, r"x\.so is not an ELF file"),
        ({"a/x.so": cubin({"one": code("n")})[:-1], "a/y.so": cubin({"one": code("n")})}, r"x\.so is cut short"),
        ({"../x.so": cubin({"one": code("n")})}, "which is unsafe"),
    ],
)
def test_a_wheel_without_sound_objects_is_refused(
    tmp_path: Path, tools: ReadingTools, members: dict[str, bytes], message: str
) -> None:
    file = wheel(tmp_path / "a-1-py3-none-any.whl", members)

    with pytest.raises(VerificationError, match=message):
        extract_cubins([file], tools=tools, folder=tmp_path / "work")


@pytest.mark.parametrize("cut", [70, 100, 200, -1])
def test_a_cubin_that_is_cut_short_is_refused(tmp_path: Path, tools: ReadingTools, cut: int) -> None:
    (tmp_path / "a.cubin").write_bytes(cubin({"one": code("n")})[:cut])

    with pytest.raises(VerificationError, match="is cut short"):
        extract_cubins([tmp_path / "a.cubin"], tools=tools, folder=tmp_path / "work")


@pytest.mark.parametrize("value", [1, 3, 0xFFFF])
def test_a_damaged_header_is_an_error_or_nothing_worse(tmp_path: Path, tools: ReadingTools, value: int) -> None:
    for at in range(16, 64, 2):
        content = bytearray(cubin({"one": code("n")}))
        struct.pack_into("<H", content, at, value)
        (tmp_path / "a.cubin").write_bytes(content)
        with suppress(VerificationError, FileNotFoundError):  # cuobjdump, which is not there, reads what is no cubin
            extract_cubins([tmp_path / "a.cubin"], tools=tools, folder=tmp_path / f"work-{at}")


def test_code_behind_the_end_is_refused(tmp_path: Path, tools: ReadingTools) -> None:
    content = bytearray(cubin({"one": code("n")}))
    struct.pack_into("<Q", content, len(content) - 64 * 2 + 32, 1 << 40)
    (tmp_path / "a.cubin").write_bytes(content)

    with pytest.raises(VerificationError, match="the code of a kernel ends behind it"):
        extract_cubins([tmp_path / "a.cubin"], tools=tools, folder=tmp_path / "work")


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF"])
@pytest.mark.parametrize("name", ["a.so", "a.cubin", "a"])
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, tools: ReadingTools, content: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(VerificationError, match="not an ELF file"):
        extract_cubins([tmp_path / name], tools=tools, folder=tmp_path / "work")


def test_what_is_no_file_is_named(tmp_path: Path, tools: ReadingTools) -> None:
    for name in ("folder.so", "folder.whl"):
        (tmp_path / name).mkdir()
        with pytest.raises(VerificationError, match="no regular file"):
            extract_cubins([tmp_path / name], tools=tools, folder=tmp_path / "work")
    for name in ("a.so", "a.whl"):
        with pytest.raises(VerificationError, match="no such file"):
            extract_cubins([tmp_path / name], tools=tools, folder=tmp_path / "work")


def test_what_a_kernel_takes_is_never_guessed(tmp_path: Path, tools: ReadingTools) -> None:
    (tmp_path / "a.cubin").write_bytes(cubin({"one": code("n"), "two": code("n")}))
    program = tmp_path / "cuobjdump"
    program.write_text("#!/bin/sh\nprintf ' Function one:\\n  REG:8 STACK:16 SHARED:32 LOCAL:0\\n'\n")
    program.chmod(0o755)
    tools = ReadingTools(program, tools.nvdisasm)
    (found,) = extract_cubins([tmp_path / "a.cubin"], tools=tools, folder=tmp_path / "work")

    with pytest.raises(VerificationError, match="does not tell what two takes"):
        usage(found, tools=tools)

    assert usage(replace(found, kernels=found.kernels[:1]), tools=tools) == {"one": Usage(8, 16, 32)}
