"""Recipes: what is pinned, patched and built, as frozen values; recipe_reader reads them from ``recipe.toml``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from forkwheel.errors import UsageError

FORMAT = 1
SOURCE_KINDS = ("git", "sdist", "wheel")
ANY_TARGET = "any"
"""The target of a recipe whose packages have nothing to do with a GPU."""
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
"""What the name of a recipe or package looks like."""
LONGEST_NAME = 100
"""Characters of a name or version: they become part of file names, which hold 255 bytes."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What a recipe states; ``place`` is its file and line, for errors alone: what stands elsewhere is equal."""

    place: str = field(default="", compare=False, repr=False)

    @property
    def at(self) -> str:
        """The start of an error's message about it."""
        return f"{self.place}: " if self.place else ""


@dataclass(frozen=True)
class Submodule:
    """A submodule's path in its repository and the commit that it is pinned to."""

    path: str
    commit: str


@dataclass(frozen=True)
class GitSource(Placed):
    """A commit of a git repository; ``subdirectory`` is the folder that holds the project."""

    url: str
    commit: str
    tag: str | None
    subdirectory: str
    submodules: tuple[Submodule, ...]

    kind = "git"

    @property
    def pin(self) -> str:
        """Name what is pinned, in one line."""
        return f"{self.url}@{self.commit}"


@dataclass(frozen=True)
class FileSource(Placed):
    """An sdist or a wheel of the package index, pinned by its SHA-256."""

    kind: str
    filename: str
    sha256: str

    @property
    def pin(self) -> str:
        """Name what is pinned, in one line."""
        return f"{self.filename}@sha256:{self.sha256}"


Source = GitSource | FileSource


def wheel_tags(filename: str) -> str:
    """Return what tells a version's wheels apart: the build, Python, ABI and platform tags of a wheel's file name.

    The name of another kind of file has none.
    """
    return filename.removesuffix(".whl").split("-", 2)[-1] if filename.endswith(".whl") else ""


@dataclass(frozen=True)
class GeneratedFile(Placed):
    """A file that forkwheel writes into the tree; ``{version}`` in its text is replaced."""

    path: str
    text: str


@dataclass(frozen=True)
class Substitution(Placed):
    """A text that stands exactly once in a file of the patched tree, and what replaces it.

    ``{version}`` in the replacement becomes the full version: this is how a version that a
    project states in a file, such as pyproject.toml, is set.
    """

    path: str
    text: str
    replacement: str


@dataclass(frozen=True)
class JitCache:
    """Where a package keeps what it compiled on first use.

    The cache is ``$variable`` (or HOME, where that is unset) followed by ``path``, and holds
    a folder for each version, local part included. ``clear`` names the pieces, each removed
    whole, below a version (globs); ``locks`` the lock files that a running compilation holds,
    in which a ``*`` stands for the same folder as in ``clear``, and ``{name}`` for a piece
    that lies beside the locks' own folder. ``distributions`` and ``prebuilt`` (globs in
    site-packages) name what is loaded in preference to the cache.
    """

    variable: str
    path: str
    clear: tuple[str, ...]
    locks: tuple[str, ...]
    distributions: tuple[str, ...]
    prebuilt: tuple[str, ...]


@dataclass(frozen=True)
class Package(Placed):
    """One upstream project: where it comes from, how it is patched and how it is built.

    ``epoch`` is the time (seconds since 1970) that every record of the build carries.
    ``series`` is the folder of the patch series, or None for an unpatched package.
    ``requires`` are requirements whose version becomes that of this recipe's own wheel, or the
    one that ``required_versions`` gives. ``not_shipped`` (globs) are files that the wheel need
    not hold although a patch changes them.
    """

    name: str
    version: str
    epoch: int
    sources: tuple[Source, ...]
    series: Path | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    executable: tuple[str, ...]
    generated: tuple[GeneratedFile, ...]
    substitutions: tuple[Substitution, ...]
    manifest_file: str | None
    version_file: str | None
    requires: tuple[str, ...]
    required_versions: tuple[tuple[str, str], ...]
    must_contain: tuple[str, ...]
    not_shipped: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    config_settings: tuple[tuple[str, str], ...]
    jit_cache: JitCache | None

    @property
    def is_taken(self) -> bool:
        """Tell whether upstream's wheel is taken as it is: it is a wheel, and nothing in it is to be changed."""
        changes = (self.series, self.generated, self.substitutions, self.requires)
        return all(source.kind == "wheel" for source in self.sources) and not any(changes)

    def variants(self, kind: str | None = None) -> tuple[Package, ...]:
        """Part the package by what it is built from: once from its sources, or from each wheel on its own.

        Wheels are used where there is no other source, or ``kind`` asks for them.
        """
        wheels = tuple(source for source in self.sources if source.kind == "wheel")
        others = tuple(source for source in self.sources if source.kind != "wheel")
        if wheels and (kind == "wheel" or (kind is None and not others)):
            return tuple(replace(self, sources=(wheel,)) for wheel in wheels)
        return (self if kind is not None or not wheels else replace(self, sources=others),)


@dataclass(frozen=True)
class Recipe:
    """A named set of packages that are built for one GPU target.

    ``revision`` 0 is a recipe that was never released: all its builds are development builds.
    """

    name: str
    local: str
    revision: int
    target: str
    summary: str
    packages: tuple[Package, ...]
    file: Path

    @property
    def folder(self) -> Path:
        """The folder that holds the recipe, its locks and its evidence."""
        return self.file.parent

    def package(self, name: str) -> Package:
        """Return the package of that name, in any spelling; raise UsageError where there is none."""
        for package in self.packages:
            if canonicalize_name(package.name) == canonicalize_name(name):
                return package
        names = ", ".join(package.name for package in self.packages)
        raise UsageError(f"recipe {self.name} has no package {name!r}", hint=f"its packages are: {names}")


def find_recipe(name_or_path: str, *, recipes: Path) -> Path:
    """Return the ``recipe.toml`` meant by a name under ``recipes``, a folder or a file."""
    given = Path(name_or_path)
    candidates = [given, given / "recipe.toml"]
    if "/" not in name_or_path:
        candidates.insert(0, recipes / name_or_path / "recipe.toml")
    for candidate in candidates:
        if _is_file(candidate):
            return candidate.resolve()
    known = ", ".join(sorted(file.parent.name for file in recipes.glob("*/recipe.toml"))) or "none"
    shown = repr(name_or_path) if len(name_or_path) <= LONGEST_NAME else f"{name_or_path[:LONGEST_NAME]!r}…"
    raise UsageError(f"there is no recipe {shown}", hint=f"recipes in {recipes.absolute()}: {known}; or give a path")


def _is_file(path: Path) -> bool:
    """Tell whether a path is a file; one that cannot exist, because of its length or a NUL, is none."""
    try:
        return path.is_file()
    except PermissionError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="check the rights of its folders") from error
    except (OSError, ValueError):
        return False


def load_recipe(file: Path, *, series_root: Path | None = None) -> Recipe:
    """Read and check a recipe; raise RecipeError, with file and line, at the first fault.

    A series that lies outside of ``series_root`` is refused, for a recipe that came with an
    artefact and has no say over other folders.
    """
    from forkwheel.recipe_reader import read_recipe  # which builds on this module's values

    return read_recipe(file, series_root=series_root)
