"""Resolving build requirements, against an index that is a folder."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import PACKAGE
from wheels_support import quiet_log, write_project, write_wheel

from forkwheel.console import Console
from forkwheel.cuda.toolchain import load_toolchain_lock
from forkwheel.cuda.toolchain_choice import choose_toolchain
from forkwheel.errors import BuildError, FetchError, ForkwheelError, RecipeError
from forkwheel.recipe import Recipe, load_recipe
from forkwheel.release.inputs import Inputs, PackageInputs
from forkwheel.release.resolution import resolve_inputs, resolve_package
from forkwheel.store import Store


class Index:
    """A simple index in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, version: str, *, metadata: str = "", tags: Sequence[str] = ("py3-none-any",)) -> None:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        dist_info = f"{name}-{version}.dist-info"
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
        files = {
            f"{dist_info}/METADATA": head.encode(),
            f"{dist_info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        wheel = write_wheel(folder, files, name=name, version=version)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        with (folder / "index.html").open("a") as page:
            for tag in tags:
                copy = wheel.with_name(f"{name}-{version}-{tag}.whl")
                copy.write_bytes(wheel.read_bytes())
                page.write(f'<a href="{copy.name}#sha256={digest}">{copy.name}</a>\n')
        if "py3-none-any" not in tags:
            wheel.unlink()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return Index(tmp_path / "index")


def resolve(
    tmp_path: Path, requires: str, *, constraints: Sequence[str] = (), more: Sequence[str] = ()
) -> PackageInputs:
    tree = write_project(tmp_path / "tree", requires=requires)
    (tree / "backend.py").write_text(f"def get_requires_for_build_wheel(settings=None):\n    return {list(more)!r}\n")
    store = Store(tmp_path / "cache")
    return resolve_package(PACKAGE, tree, version="1.0", constraints=constraints, store=store, log=quiet_log())


def summary(inputs: PackageInputs) -> list[tuple[str, str, str | None]]:
    return [(item.name, item.version, item.marker) for item in inputs.requirements]


def test_what_other_pythons_and_machines_need_is_locked_with_a_marker(tmp_path: Path, index: Index) -> None:
    old = "Requires-Dist: backport; python_version < '3.12'\nRequires-Dist: never; sys_platform == 'win32'\n"
    index.add("top", "1.0", metadata=f"{old}Requires-Dist: arm; platform_machine == 'aarch64'\n")
    index.add("backport", "2.0", metadata="Requires-Dist: deep; python_version >= '3.11'\n")
    index.add("deep", "3.0")
    index.add("arm", "4.0")

    inputs = resolve(tmp_path, '"top"')

    assert inputs.requires == ("top",)
    assert summary(inputs) == [
        (
            "arm",
            "4.0",
            " or ".join(f'python_version == "3.{minor}" and platform_machine == "aarch64"' for minor in range(10, 14)),
        ),
        ("backport", "2.0", 'python_version == "3.10" or python_version == "3.11"'),
        ("deep", "3.0", 'python_version == "3.11"'),
        ("top", "1.0", None),
    ]


def test_extras_are_followed(tmp_path: Path, index: Index) -> None:
    index.add("top", "1.0", metadata="Provides-Extra: x\nRequires-Dist: extra-only; extra == 'x'\n")
    index.add("extra_only", "1.0")
    (index.root / "extra_only").rename(index.root / "extra-only")

    assert summary(resolve(tmp_path, '"top[x]"')) == [("extra-only", "1.0", None), ("top", "1.0", None)]


def test_constraints_narrow_the_choice_and_are_kept(tmp_path: Path, index: Index) -> None:
    index.add("top", "1.0")
    index.add("top", "2.0")
    tree = write_project(tmp_path / "tree", requires='"top"')
    previous = Inputs(tmp_path, (PackageInputs("Demo", (), ("top<2",), ()),))

    (part,) = resolve_inputs(
        [(PACKAGE, tree, "1.0")], previous=previous, store=Store(tmp_path / "cache"), log=quiet_log()
    )

    assert (part.constraints, summary(part)) == (("top<2",), [("top", "1.0", None)])
    assert sorted(path.name for path in tree.iterdir()) == ["backend.py", "pyproject.toml"]


def test_what_the_backend_asks_for_is_locked_too(tmp_path: Path, index: Index) -> None:
    index.add("top", "1.0")
    index.add("asked", "1.0")

    inputs = resolve(tmp_path, '"top"', more=["asked>=1", "top"])

    assert summary(inputs) == [("asked", "1.0", None), ("top", "1.0", None)]
    assert inputs.requires == ("top",)


def test_every_usable_wheel_is_locked_and_no_other(tmp_path: Path, index: Index) -> None:
    usable = [
        "cp310-cp310-manylinux_2_17_x86_64",
        "cp310-cp310-manylinux_2_28_x86_64.manylinux_2_17_x86_64",
        "cp313-cp313-manylinux_2_17_aarch64",
        "cp38-abi3-linux_aarch64",
        "py3-none-any",
    ]
    others = [
        "cp39-cp39-manylinux_2_17_x86_64",
        "cp314-cp314-manylinux_2_17_x86_64",
        "cp312-cp312-win_amd64",
        "cp312-cp312-macosx_11_0_arm64",
        "cp312-cp312-manylinux_2_17_s390x",
        "pp310-pypy310_pp73-manylinux_2_17_x86_64",
        "cp313-cp313t-manylinux_2_17_x86_64",
        "py2-none-any",
    ]
    index.add("top", "1.0", tags=[*others, *usable])

    (requirement,) = resolve(tmp_path, '"top"').requirements

    assert [filename for filename, _ in requirement.files] == [f"top-1.0-{tag}.whl" for tag in usable]


def test_a_version_that_some_python_cannot_use_is_refused(tmp_path: Path, index: Index) -> None:
    index.add("top", "1.0", metadata="Requires-Python: <3.13\n")

    with pytest.raises(BuildError, match=r"top 1.0 requires Python <3.13, which excludes 3.13"):
        resolve(tmp_path, '"top"')


def test_a_version_for_new_pythons_only_is_passed_over(tmp_path: Path, index: Index) -> None:
    index.add("top", "1.0")
    index.add("top", "2.0", metadata="Requires-Python: >=3.11\n")
    page = index.root / "top" / "index.html"
    page.write_text(page.read_text().replace('<a href="top-2', '<a data-requires-python="&gt;=3.11" href="top-2'))

    assert summary(resolve(tmp_path, '"top"')) == [("top", "1.0", None)]


def test_a_wheel_without_a_digest_cannot_be_locked(tmp_path: Path, index: Index) -> None:
    index.add("top", "1.0")
    page = index.root / "top" / "index.html"
    page.write_text(page.read_text().split("#")[0] + '">top-1.0-py3-none-any.whl</a>')

    with pytest.raises(FetchError, match=r"the index has no wheel of top 1.0 that can be locked"):
        resolve(tmp_path, '"top"')


def test_a_requirement_that_the_index_lacks_is_named(tmp_path: Path, index: Index) -> None:
    index.root.mkdir()

    with pytest.raises(ForkwheelError, match="nowhere"):
        resolve(tmp_path, '"nowhere"')


def test_a_project_without_build_requirements_is_locked_so(tmp_path: Path, index: Index) -> None:
    assert resolve(tmp_path, "") == PackageInputs("demo", (), (), ())


BOTH = ("py3-none-manylinux_2_17_aarch64", "py3-none-manylinux_2_17_x86_64")
TOOLCHAIN = """\
format = 1

[[package]]
name = "toolkit"
requires = ["compiler==13.0.*", "headers==13.0.1"]
constraints = ["compiler!=13.0.9"]

[[package]]
name = "reading"
requires = ["reader>=2"]
"""
TEXT = f"""\
[recipe]
name = "demo"
local = "wide"
revision = 1

[[package]]
name = "demo"
version = "1.0"
epoch = 1700000000

[[package.source]]
kind = "sdist"
filename = "demo-1.0.tar.gz"
sha256 = "{"0" * 64}"
"""


@pytest.fixture
def recipe(tmp_path: Path, index: Index) -> Recipe:
    """Return a recipe whose author wrote what its toolchain requires, and an index that has all of it."""
    for name, version in (("compiler", "13.0.1"), ("compiler", "13.0.9"), ("headers", "13.0.1"), ("headers", "13.0.2")):
        index.add(name, version, tags=BOTH)
    index.add("reader", "2.0")
    folder = tmp_path / "recipe"
    folder.mkdir()
    (folder / "toolchain.lock.toml").write_text(TOOLCHAIN)
    (folder / "recipe.toml").write_text(TEXT)
    return load_recipe(folder / "recipe.toml")


def choose(recipe: Recipe, tmp_path: Path) -> str:
    """Choose the toolchain, and return what was said."""
    output = io.StringIO()
    choose_toolchain(recipe, store=Store(tmp_path / "cache"), log=Console(stream=output).bind("demo"))
    return output.getvalue()


def test_the_toolchain_is_pinned_for_both_machines_as_its_lock_requires(tmp_path: Path, recipe: Recipe) -> None:
    with pytest.raises(RecipeError, match="the part 'toolkit' is not pinned") as caught:
        load_toolchain_lock(recipe.folder)
    assert "--toolchain" in caught.value.hint

    said = choose(recipe, tmp_path)

    toolkit, reading = load_toolchain_lock(recipe.folder).parts
    assert (toolkit.requires, toolkit.constraints) == (("compiler==13.0.*", "headers==13.0.1"), ("compiler!=13.0.9",))
    assert summary(toolkit) == [("compiler", "13.0.1", None), ("headers", "13.0.1", None)]
    assert [name for name, _ in toolkit.requirements[0].files] == [f"compiler-13.0.1-{tag}.whl" for tag in BOTH]
    assert summary(reading) == [("reader", "2.0", None)]
    assert "toolkit: compiler: none to 13.0.1" in said


def test_choosing_the_same_toolchain_again_changes_no_byte(tmp_path: Path, recipe: Recipe) -> None:
    choose(recipe, tmp_path)
    first = (recipe.folder / "toolchain.lock.toml").read_bytes()

    said = choose(recipe, tmp_path)

    assert (recipe.folder / "toolchain.lock.toml").read_bytes() == first
    assert "toolchain.lock.toml is as it was" in said


def test_what_a_newer_index_changes_is_told(tmp_path: Path, recipe: Recipe, index: Index) -> None:
    choose(recipe, tmp_path)
    index.add("reader", "2.1")
    index.add("headers", "13.0.1", tags=["py3-none-manylinux_2_28_x86_64"])

    said = choose(recipe, tmp_path)

    assert "reading: reader: 2.0 to 2.1" in said
    assert "toolkit: headers: other files of 13.0.1" in said
    assert "compiler" not in said
    assert f"record the kernels with `forkwheel kernels --recipe {recipe.folder} --lock`" in said


@pytest.mark.parametrize("lacking", ["a machine", "a part"])
def test_half_a_toolchain_is_not_written(tmp_path: Path, recipe: Recipe, index: Index, lacking: str) -> None:
    if lacking == "a machine":
        index.add("reader", "3.0", tags=BOTH[1:])
    else:
        (index.root / "reader" / "index.html").unlink()

    with pytest.raises(ForkwheelError, match=r"reader 3\.0 has no wheel for Python 3\.10 on aarch64|reader>=2"):
        choose(recipe, tmp_path)

    assert (recipe.folder / "toolchain.lock.toml").read_text() == TOOLCHAIN


def test_a_recipe_without_a_toolchain_is_told_what_to_write(tmp_path: Path, recipe: Recipe) -> None:
    (recipe.folder / "toolchain.lock.toml").unlink()

    with pytest.raises(RecipeError, match=r"there is no .*toolchain\.lock\.toml") as caught:
        choose(recipe, tmp_path)
    assert "write the `name` and `requires` of each part there" in caught.value.hint
