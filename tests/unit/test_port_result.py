"""What a port writes, and where: the places, the recipe's text, and what it substitutes."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from patch_support import EDIT, LINES
from port_support import Project, conflicting, project, repository, sdist, with_git

from forkwheel.patching.git import run_git
from forkwheel.patching.series import load_series
from forkwheel.recipe import Package, load_recipe

__all__ = ["project"]


def ported(project: Project, name: str = "wide-2") -> Package:
    (package,) = load_recipe(project.repository / "recipes" / name / "recipe.toml").packages
    return package


@pytest.mark.parametrize("action", ["--continue", "--skip", "--abort"])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--name", "other"], "was begun with --name wide-2, not with other"),
        (["--out", "elsewhere"], "was begun without --out, not with"),
        (["--repository", "demo=."], "--repository was decided on"),
    ],
)
def test_a_port_is_gone_on_with_as_it_was_begun(
    project: Project, capsys: pytest.CaptureFixture[str], action: str, option: list[str], message: str
) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    before = project.snapshot()
    capsys.readouterr()
    assert project.run(action, *option) == 2
    assert message in capsys.readouterr().err
    assert project.snapshot() == before
    assert (project.work / "port.json").is_file()


def test_what_a_port_was_begun_with_may_be_repeated(project: Project) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2", "--out", "../out") == 4
    assert project.run("--skip", "--name", "wide-2", "--out", str(project.folder / "out")) == 0
    assert (project.folder / "out/recipes/wide-2/recipe.toml").is_file()
    assert (project.folder / "out/patches/demo/2.0/a.patch").is_file()


def test_a_folder_that_is_no_port_is_not_called_one(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    project.work.mkdir()
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 2
    assert f"{project.work} exists, and holds no port" in capsys.readouterr().err


def moved(project: Project, recipe: str, series: str, *, stated: str) -> Path:
    """Move the recipe and its series elsewhere; return the recipe's folder."""
    for old, new in (("recipes/wide", recipe), ("patches/demo/1.0", series)):
        (project.folder / new).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(project.repository / old, project.folder / new)
    file = project.folder / recipe / "recipe.toml"
    file.write_text(file.read_text().replace("../../patches/demo/1.0", stated))
    return file.parent


@pytest.mark.parametrize(
    ("recipe", "series", "stated", "made"),
    [
        ("own/thing", "own/thing/patches", "patches", "own/wide-port/patches"),
        ("own/thing", "own/thing/patches/1.0", "patches/1.0", "own/wide-port/patches/2.0"),
        ("own/thing", "own/series/demo", "../series/demo", "own/series/demo-2.0"),
        ("own/thing", "own/series/demo-1.0", "../series/demo-1.0", "own/series/demo-2.0"),
    ],
)
def test_a_recipe_anywhere_is_ported_to_a_place_beside_it_that_is_told(
    project: Project, capsys: pytest.CaptureFixture[str], recipe: str, series: str, stated: str, made: str
) -> None:
    project.release("1.0", {"f.txt": LINES})
    project.release("2.0", {"f.txt": b"new\n" + LINES})
    project.write({"a.patch": EDIT})
    folder = moved(project, recipe, series, stated=stated)
    before = {str(path) for path in project.repository.rglob("*")}

    assert project.run("--to", "demo=2.0", recipe=str(folder)) == 0

    told = capsys.readouterr().out
    target = folder.with_name("wide-port")
    for place in (target, project.folder / made):
        assert f"will be written: {place}\n" in told
    (package,) = load_recipe(target / "recipe.toml").packages
    assert package.series == project.folder / made
    assert [patch.name for patch in load_series(package.series).patches] == ["a.patch"]
    assert {str(path) for path in project.repository.rglob("*")} == before


def test_a_folder_given_gets_the_recipe_and_the_series(project: Project) -> None:
    project.release("1.0", {"f.txt": LINES})
    project.release("2.0", {"f.txt": b"new\n" + LINES})
    project.write({"a.patch": EDIT})
    folder = moved(project, "own/thing", "away/x/y/series", stated="../../away/x/y/series")
    assert project.run("--to", "demo=2.0", "--out", str(project.folder / "out"), recipe=str(folder)) == 0
    (package,) = load_recipe(project.folder / "out/recipes/wide-port/recipe.toml").packages
    assert package.series == project.folder / "out/away/x/y/series-2.0"


INIT = b'__version__ = "1.0"\nother = 3\n'
SUBSTITUTE = '\n[[package.substitute]]\npath = "v.py"\ntext = {text}\nreplacement = {replacement}\n'


@pytest.mark.parametrize(
    ("text", "replacement", "new", "expected"),
    [
        ("other = 3", "other = {version}", INIT.replace(b"1.0", b"2.0"), "other = 3"),
        ('__version__ = "1.0"', '__version__ = "{version}"  # of 1.0', INIT.replace(b"1.0", b"2.0"), None),
        ('"1.0"\nother', '"{version}"\nother', INIT.replace(b"1.0", b"2.0"), '"2.0"\nother'),
    ],
)
def test_substitutions_that_fit_are_carried_forward(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    text: str,
    replacement: str,
    new: bytes,
    expected: str | None,
) -> None:
    project.release("1.0", {"f.txt": LINES, "v.py": INIT})
    project.release("2.0", {"f.txt": LINES, "v.py": new})
    project.write({"a.patch": EDIT}, more=SUBSTITUTE.format(text=f"'''{text}'''", replacement=f"'''{replacement}'''"))
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0
    (item,) = ported(project).substitutions
    assert item.text == (expected or '__version__ = "2.0"')
    assert item.replacement == replacement.replace("of 1.0", "of 2.0")
    assert "`substitute`" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"v.py": INIT.replace(b"__version__", b"VERSION")}, "stands 0 times in v.py, not once"),
        ({"v.py": b'__version__ = "2.0"\n' * 2}, "stands 0 times in v.py, not once"),
        ({"v.py": b'__version__ = "1.00"\n__version__ = "11.0"\n'}, "stands 0 times in v.py, not once"),
        ({}, "2.0 has no file v.py"),
    ],
)
def test_substitutions_that_no_longer_fit_are_told(
    project: Project, capsys: pytest.CaptureFixture[str], files: dict[str, bytes], message: str
) -> None:
    project.release("1.0", {"f.txt": LINES, "v.py": INIT})
    project.release("2.0", {"f.txt": LINES, **files})
    text = SUBSTITUTE.format(text="'''__version__ = \"1.0\"'''", replacement="'x'")
    project.write({"a.patch": EDIT}, more=text)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0
    told = capsys.readouterr().out
    assert f"`substitute` of demo: {message}" in told or message in told
    assert "or it does not build" in told
    assert ported(project).substitutions[0].text == '__version__ = "1.0"'


def test_patterns_that_match_nothing_anymore_are_dropped_with_a_note(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.release("1.0", {"f.txt": LINES, "run.sh": b"", "tool.sh": b""})
    project.release("2.0", {"f.txt": LINES, "tool.sh": b""})
    project.write({"a.patch": EDIT}, more="executable = ['run.sh', \"tool.sh\"]")
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0
    assert ported(project).executable == ("tool.sh",)
    assert "`executable` no longer has 'run.sh'" in capsys.readouterr().out


ODD = '''\
# Why this recipe is.
[recipe] # the head
name = "wide" # its name
"local" = 'us'
revision = 7 # the seventh
[[package]] # the one
name = "demo"
version = """
1.0\\
""" # upstream's
epoch = 1_600_000_000 # the date of 1.0
series = '../../patches/demo/1.0' # in the folder patches
include = [ # what is kept
  "f.txt", # the file
  "docs/**", 'pyproject.toml', # the rest
]
# The first source.
[[package.source]] # from the index
kind = "sdist" # the only one
filename = "demo-1.0.tar.gz"
sha256 = "{digest}"

# At the end.
[package.environment]
A = "version = 1.0" # stays
'''


def test_comments_and_odd_spellings_stay_right(project: Project) -> None:
    project.release("1.0", {"f.txt": LINES, "docs/x.txt": b"x\n"})
    project.release("2.0", {"f.txt": b"new\n" + LINES})
    project.write({"a.patch": EDIT})
    file = project.repository / "recipes/wide/recipe.toml"
    (package,) = load_recipe(file).packages
    file.write_text(ODD.replace("{digest}", package.sources[0].sha256))  # type: ignore[union-attr]

    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0

    text = (project.repository / "recipes/wide-2/recipe.toml").read_text()
    for line in (
        'name = "wide-2" # its name',
        "revision = 1 # the seventh",
        'version = "2.0" # upstream\'s',
        "epoch = 1700000000  # 2023-11-14T22:13:20Z, the date of the new source",
        'series = "../../patches/demo/2.0" # in the folder patches',
        '  "f.txt", # the file',
        "  'pyproject.toml', # the rest",
        "# At the end.",
        'A = "version = 1.0" # stays',
    ):
        assert f"\n{line}\n" in text
    assert ported(project).include == ("f.txt", "pyproject.toml")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            '[recipe]\nname = "wide"\nlocal = "us"\nrevision = 7\n',
            'recipe = {name = "wide", local = "us", revision = 7}\n',
        ),
        ("[[package.source]]\n", "source = [{"),
    ],
)
def test_a_recipe_that_cannot_be_rewritten_is_refused_at_the_start(
    project: Project, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    conflicting(project)
    file = project.repository / "recipes/wide/recipe.toml"
    text = file.read_text().replace(old, new).replace('target = "sm_120a"\n', "")
    if "source" in new:
        head, _, tail = text.partition(new)
        text = f"{head}{new}{', '.join(tail.strip().splitlines())}}}]\n"
    file.write_text(text)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 2
    assert "is not written in a way that can be rewritten" in capsys.readouterr().err
    assert not project.work.exists()


def test_a_version_is_taken_from_the_repository_that_is_given(project: Project) -> None:
    conflicting(project)
    folder, first = repository(project)
    with_git(project, project.folder / "gone", first)
    (project.links / "demo-2.0.tar.gz").unlink()
    place = folder.rename(project.folder / "elsewhere")
    assert project.run("--to", "demo=2.0", "--name", "wide-2", "--repository", f"demo={place}") == 0
    (source,) = ported(project).sources
    assert source.commit == run_git("rev-parse", "v2.0", folder=place).decode().strip()  # type: ignore[union-attr]
    assert source.tag == "v2.0"  # type: ignore[union-attr]


def test_a_branch_is_no_tag(project: Project) -> None:
    conflicting(project)
    folder, first = repository(project)
    with_git(project, folder, first)
    run_git("branch", "next", folder=folder)
    assert project.run("--to", "demo=2.0@next", "--name", "wide-2") == 0
    assert ported(project).sources[0].tag is None  # type: ignore[union-attr]


def with_another(project: Project, *, requires: str = "") -> None:
    """Give the recipe a second package, which needs no patch."""
    archive = sdist(project.links, "1.0", {"o.txt": b""}, name="other")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    file = project.repository / "recipes/wide/recipe.toml"
    file.write_text(
        f'{file.read_text()}\n[[package]]\nname = "other"\nversion = "1.0"\nepoch = 1600000000\n{requires}\n'
        f'[[package.source]]\nkind = "sdist"\nfilename = "other-1.0.tar.gz"\nsha256 = "{digest}"\n'
    )


def test_a_package_is_not_moved_away_from_under_one_that_pins_it(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    conflicting(project)
    with_another(project, requires='requires = ["demo==1.0"]')
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 2
    told = capsys.readouterr()
    assert "other 1.0 requires demo==1.0, not 2.0" in told.err
    assert "--to other=VERSION" in told.err
    assert "started" not in told.out
    assert not project.work.exists()


@pytest.mark.parametrize(("name", "local"), [("wide-2", "wide2"), ("2.u-S", "us2"), ("7", "us2")])
def test_a_version_that_stays_gets_another_word(
    project: Project, capsys: pytest.CaptureFixture[str], name: str, local: str
) -> None:
    project.release("1.0", {"f.txt": LINES})
    project.release("2.0", {"f.txt": b"new\n" + LINES})
    project.write({"a.patch": EDIT})
    with_another(project)
    assert project.run("--to", "demo=2.0", "--name", name) == 0
    assert load_recipe(project.repository / "recipes" / name / "recipe.toml").local == local
    assert f"`local` is '{local}', not 'us': wide has other 1.0+us already" in capsys.readouterr().out


def test_where_every_version_moves_the_word_stays(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.release("1.0", {"f.txt": LINES})
    project.release("2.0", {"f.txt": b"new\n" + LINES})
    project.write({"a.patch": EDIT})
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0
    told = capsys.readouterr().out
    assert load_recipe(project.repository / "recipes/wide-2/recipe.toml").local == "us"
    assert "`local`" not in told
    for stage in ("find 2.0", "work tree", "patches", "series"):
        assert f"[demo] {stage}: started" in told
    assert "next: `nox -s lock -- --recipe wide-2`, then `nox -s build -- --recipe wide-2`" in told


CODE = {"f.txt": LINES, "app/__init__.py": b"", "app/core.py": b"def start():\n    wanted = 1\n    return wanted\n"}


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        (CODE, None),
        (CODE | {"app/core.py": b"wanted = 1\ndef start():\n    pass\n"}, "app/core.py has no 'wanted' there"),
        (CODE | {"app/core.py": b"def begin():\n    pass\n"}, "app/core.py has no function start"),
        ({"f.txt": LINES, "app/__init__.py": b""}, "there is no module app.core"),
    ],
)
def test_the_gates_go_along_as_long_as_their_entries_are_there(
    project: Project, capsys: pytest.CaptureFixture[str], new: dict[str, bytes], lost: str | None
) -> None:
    project.release("1.0", CODE)
    project.release("2.0", {**new, "f.txt": b"new\n" + LINES})
    project.write({"a.patch": EDIT})
    gates = 'references = ["9.0"]\n[[entry]]\nsymbol = "app.core:start"\nconcerns = "wanted"\n'
    (project.repository / "recipes/wide/gates.toml").write_text(gates)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0
    told = capsys.readouterr().out
    made = project.repository / "recipes/wide-2/gates.toml"
    assert made.is_file() == (lost is None)
    assert ("gates.toml is not carried over" in told) == (lost is not None)
    assert lost is None or f"entry 'app.core:start': {lost}" in told
