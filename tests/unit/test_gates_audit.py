"""The audit of whole trees: paths, before and after, expectations, explanations and the command."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gates_support import FIXES, write

from forkwheel.errors import RecipeError, UsageError, VerificationError
from forkwheel.gates import commands
from forkwheel.gates.arch import Arch, parse_arch
from forkwheel.gates.audit import audit
from forkwheel.gates.compare import check_consistent, compare, judge
from forkwheel.gates.explain_symbol import explain_symbol
from forkwheel.gates.files import list_files, opened
from forkwheel.gates.model import Audit, Entry, Expectation, Layer
from forkwheel.gates.settings import load_settings
from forkwheel.gates.table import path_rows, to_sarif
from forkwheel.store import Store

TARGET = Arch(12, 0)
REFERENCES = (Arch(9, 0), Arch(10, 0))

ENTRIES = (Entry("app.server:arrange", "fused"), Entry("app.layer:run"))
LAYERS = (Layer("arguments", ("app/server.py",)), Layer("layer", ("app/*",)), Layer("list", ("lib/*",)))


def look(root: Path, **options: object) -> Audit:
    arguments = {"entries": ENTRIES, "layers": LAYERS, **options}
    return audit({"tree": root}, target=TARGET, references=REFERENCES, **arguments)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return look(write(tmp_path_factory.mktemp("before"), set()))


def places(audited: Audit) -> list[tuple[str, str]]:
    return [(step.layer, str(step.gate.place)) for step in audited.closed]


def test_the_path_runs_from_arguments_to_the_kernel_in_layers(before: Audit) -> None:
    assert places(before) == [
        ("arguments", "app/server.py:6"),
        ("layer", "app/layer.py:5"),
        ("list", "lib/jit.py:8"),
        ("device code", "include/fused.cuh:3"),
    ]


def test_what_is_off_the_path_is_told_apart(before: Audit) -> None:
    on_path = {step.gate.place for step in before.path}
    apart = {str(gate.place) for gate in before.differing if gate.place not in on_path}

    assert {"app/server.py:4", "lib/jit.py:10", "include/fused.cuh:9"} <= apart


def test_a_whole_series_opens_everything_and_is_consistent(before: Audit, tmp_path: Path) -> None:
    after = look(write(tmp_path, set(FIXES)))

    difference = compare(before, after)
    check_consistent(before, after)

    assert len(difference.opened) == 4
    assert not difference.still_closed
    assert not difference.newly_closed
    assert not after.closed


@pytest.mark.parametrize("missing", FIXES)
def test_a_series_that_lacks_one_patch_is_refused_with_both_places(before: Audit, tmp_path: Path, missing: str) -> None:
    after = look(write(tmp_path, set(FIXES) - {missing}))

    with pytest.raises(VerificationError) as caught:
        check_consistent(before, after)

    path = FIXES[missing][0]
    layer = {"server": "arguments", "layer": "layer", "list": "list", "header": "device code"}[missing]
    assert f"kept out by {path}:" in caught.value.message
    assert f"({layer})" in caught.value.message
    assert any(f"admitted by {FIXES[other][0]}:" in caught.value.message for other in set(FIXES) - {missing})


def test_a_series_that_opens_nothing_is_not_half_open(before: Audit) -> None:
    check_consistent(before, before)


def test_a_gate_opened_off_the_path_and_one_newly_closed_are_shown(before: Audit, tmp_path: Path) -> None:
    root = write(tmp_path, set())
    header, layer = root / "include/fused.cuh", root / "app/layer.py"
    header.write_text("// moved\n" + header.read_text().replace("#if __CUDA_ARCH__ < 1200", "#if __CUDA_ARCH__ < 9900"))
    layer.write_text(
        layer.read_text().replace("    return fused(x)", "    if is_ten():\n        x = 1\n    return fused(x)")
    )

    difference = compare(before, look(root))

    assert [str(gate.place) for gate in difference.opened_elsewhere] == ["include/fused.cuh:9"]
    assert [str(step.gate.place) for step in difference.newly_closed] == ["app/layer.py:7"]
    assert len(difference.still_closed) == 4


def test_expected_gates_are_no_failure_and_those_that_vanished_are_named(before: Audit) -> None:
    kept = Expectation("fused.cuh", "kernel", "1200", "this kernel is slower there")
    gone = Expectation("app/gone.py", "", "", "it was there once")

    elsewhere = Expectation("app/gone.py", "", "", "some versions have it", optional=True)

    verdict = judge(before, [kept, gone, elsewhere])

    assert [(str(step.gate.place), e.reason) for step, e in verdict.expected] == [
        ("include/fused.cuh:3", "this kernel is slower there")
    ]
    assert len(verdict.unexpected) == 3
    assert verdict.vanished == (gone,)
    assert any("on purpose: this kernel" in row[4] for row in path_rows(before, verdict))


def test_a_cached_audit_is_equal_and_a_changed_file_is_seen(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    root = write(tmp_path / "tree", set())

    first, second = look(root, store=store), look(root, store=store)
    write(root, {"header"})
    third = look(root, store=store)

    assert first == second
    assert len(third.closed) == len(first.closed) - 1


def test_a_damaged_cache_is_passed_over(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    root = write(tmp_path / "tree", set())
    first = look(root, store=store)
    for file in (tmp_path / "cache" / "audits").iterdir():
        file.write_text("{")

    assert look(root, store=store) == first


@pytest.mark.parametrize(
    ("entry", "message"),
    [("app.layers:run", "no module app.layers"), ("app.layer:runs", "no function runs"), ("nothing:x", "no module")],
)
def test_an_entry_that_does_not_exist_is_an_error_with_names_like_it(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        look(write(tmp_path, set()), entries=(Entry(entry),))


def test_explain_follows_re_exports_from_a_wrong_guess(tmp_path: Path) -> None:
    write(tmp_path, set())
    (tmp_path / "app/utils").mkdir()
    (tmp_path / "app/utils/__init__.py").write_text("from app.predicates import *\n")

    (found,) = explain_symbol(
        list_files({"tree": tmp_path}), "app.helpers.is_ten", target=TARGET, references=REFERENCES
    )

    assert str(found.place) == "app/predicates.py:5"
    assert [str(place) for place in found.exported_by] == ["app/utils/__init__.py:1"]
    values = {str(arch): value for arch, value in found.values}
    assert (values["10.0"], values["12.0"], values["12.1"]) == ("True", "False", "False")


def test_explain_knows_macros_and_says_what_is_like_an_unknown_name(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("#if __CUDA_ARCH__ >= 1200\n#define IS_NEW 1\n#endif\n")

    (found,) = explain_symbol(list_files({"tree": tmp_path}), "IS_NEW", target=TARGET, references=REFERENCES)
    with pytest.raises(UsageError, match="nothing here is called 'IS_NWE'"):
        explain_symbol(list_files({"tree": tmp_path}), "IS_NWE", target=TARGET, references=REFERENCES)

    values = {str(arch): value for arch, value in found.values}
    assert (values["9.0"], values["12.0"]) == ("not defined", "1")


def test_wheels_and_sdists_are_read_and_other_files_refused(tmp_path: Path) -> None:
    source = "import torch\nif torch.cuda.get_device_capability()[0] == 9: pass\n"
    wheel, sdist = tmp_path / "a-1-py3-none-any.whl", tmp_path / "a-1.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/x.py", source)
        archive.writestr("../escape.py", source)
        archive.writestr("/absolute.py", source)
    with tarfile.open(sdist, "w:gz") as tar:
        info = tarfile.TarInfo("a-1/a/x.py")
        info.size = len(source)
        tar.addfile(info, io.BytesIO(source.encode()))
    other = tmp_path / "notes.txt"
    other.write_text("x")

    for archive_file in (wheel, sdist):
        with opened(archive_file) as root:
            found = audit({"a": root}, target=TARGET, references=REFERENCES)
        assert [str(gate.place) for gate in found.gates] == ["a/x.py:2"]
    with pytest.raises(UsageError, match="neither a folder"), opened(other):
        pass
    with pytest.raises(UsageError, match="cannot be read"), opened(tmp_path / "absent.whl"):
        pass


def test_sarif_has_an_error_for_each_closed_gate_on_the_path(before: Audit) -> None:
    report = to_sarif(before, judge(before, []))

    results = report["runs"][0]["results"]
    errors = [r["locations"][0]["physicalLocation"] for r in results if r["level"] == "error"]
    assert len(errors) == 4
    assert {e["artifactLocation"]["uri"] for e in errors} == {path for path, _, _ in FIXES.values()}
    assert {r["ruleId"] for r in results} <= {rule["id"] for rule in report["runs"][0]["tool"]["driver"]["rules"]}


def test_sarif_has_what_code_hosts_demand(tmp_path: Path) -> None:
    source = "import torch\nif torch.cuda.get_device_capability()[0] == 9: pass\n"
    (tmp_path / "a b\u00e9.py").write_text(source)
    (tmp_path / "bad.py").write_text("def f(:\n    torch.cuda.get_device_capability()\n")
    found = look(tmp_path, entries=())

    report = to_sarif(found, judge(found, []))

    (run,) = report["runs"]
    (result,) = run["results"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    place = result["locations"][0]["physicalLocation"]
    assert report["version"] == "2.1.0"
    assert place["artifactLocation"]["uri"] == "a%20b%C3%A9.py"
    assert 1 <= place["region"]["startLine"] <= place["region"]["endLine"]
    assert result["level"] in ("error", "warning", "note", "none")
    assert result["message"]["text"]
    assert all(rules[result["ruleId"]][name]["text"] for name in ("shortDescription", "fullDescription", "help"))
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("bad.py:1: does not parse")


FAULTS = {
    "": "`references` is missing",
    'references = ["9.x"]': "gates.toml:1: '9.x' is not a compute capability",
    'references = ["9.0"]\n[[entry]]\nsymbol = "x"': "gates.toml:3: `symbol` is 'x'",
    'references = ["9.0"]\n[[entry]]\nsymbol = "a:b"\nabout = "c"': "gates.toml:4: unknown key `about`",
    'references = ["9.0"]\n[[layer]]\nname = "a"': "gates.toml:2: layer 'a' has no files",
    'references = ["9.0"]\n[[expected]]\nfile = "a"': "gates.toml:2: `reason` is missing",
    'references = ["9.0"]\nformat = 9': "gates.toml:2: format 9 is newer",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_in_gates_toml_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "gates.toml").write_text(text)

    with pytest.raises(RecipeError) as caught:
        load_settings(tmp_path / "gates.toml")

    assert FAULTS[text] in caught.value.message


def test_an_exact_expectation_does_not_cover_a_longer_condition(before: Audit) -> None:
    part = Expectation("app/layer.py", "run", "is_nine()", "a part of the condition")

    whole = Expectation("app/layer.py", "run", "is_nine()", "not the whole of it", exact=True)

    assert judge(before, [part]).expected
    assert judge(before, [whole]).vanished == (whole,)


def test_a_name_that_many_files_export_means_the_file_that_the_caller_names(tmp_path: Path) -> None:
    root = write(tmp_path, set())
    for number in range(20):
        (root / f"csrc/other{number}.cu").write_text(
            "__global__ void k(int* p) {\n#if __CUDA_ARCH__ < 1200\n  p[0] = 1;\n#endif\n}\n"
            "void fused_op(int* p) { k<<<1, 1>>>(p); }\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(fused_op, fused_op);\n"
        )
    (root / "lib/api.py").write_text((root / "lib/api.py").read_text() + "SOURCE = 'fused.cu'\n")

    found = look(root)

    assert "include/fused.cuh" in {step.gate.place.path for step in found.path}
    assert not [step for step in found.path if "other" in step.gate.place.path]


@pytest.mark.parametrize(("text", "arch"), [("12.0", Arch(12, 0)), ("sm_120a", Arch(12, 0)), ("90", Arch(9, 0))])
def test_architectures_are_read_in_every_spelling(text: str, arch: Arch) -> None:
    assert parse_arch(text) == arch


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[object]:
    from forkwheel import cli

    monkeypatch.setitem(cli._COMMANDS, "audit", commands.__name__)
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "cache"))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(["audit", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call  # type: ignore[return-value]


def test_the_command_fails_on_a_closed_path_and_names_the_layer(run: object, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", set())
    sarif = tmp_path / "report.sarif"

    code, out, err = run(str(root), "--entry", "app.layer:run", "--sarif", str(sarif))  # type: ignore[operator]

    assert code == 7
    assert "app/layer.py:5" in out
    assert "12.0 is kept out by" in err
    assert json.loads(sarif.read_bytes())["version"] == "2.1.0"


def test_the_command_passes_on_an_open_path(run: object, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", set(FIXES))

    code, out, _ = run(str(root), "--entry", "app.layer:run", "--json")  # type: ignore[operator]

    document = json.loads(out)
    assert code == 0
    assert document["schema"] == 1
    assert document["audit"]["target"] == "12.0"
    assert document["audit"]["failures"] == []


def test_without_an_entry_no_path_is_said_to_be_open(run: object, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", set())

    code, out, _ = run(str(root))  # type: ignore[operator]

    assert code == 0
    assert "no entry points: name them in gates.toml or with --entry" in out
    assert "0 conditions" not in out


def test_the_command_explains_as_json(run: object, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", set())

    code, out, _ = run(str(root), "--explain", "is_ten", "--json")  # type: ignore[operator]

    (definition,) = json.loads(out)["definitions"]
    assert code == 0
    assert (definition["file"], definition["line"]) == ("app/predicates.py", 5)


@pytest.mark.parametrize("arguments", [(), ("x", "--recipe", "y"), ("x", "--target", "twelve"), ("absent",)])
def test_the_command_refuses_what_it_cannot_mean(run: object, arguments: tuple[str, ...]) -> None:
    code, _, err = run(*arguments)  # type: ignore[operator]

    assert code == 2
    assert err.startswith("error: ")
