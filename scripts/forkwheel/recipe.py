"""Recipes: what is pinned, patched and built, read from ``recipe.toml`` into frozen values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from forkwheel.errors import UsageError
from forkwheel.toml_file import Section, read_toml

FORMAT = 1
SOURCE_KINDS = ("git", "sdist", "wheel")
ANY_TARGET = "any"
"""The target of a recipe whose packages have nothing to do with a GPU."""

_COMMIT = r"[0-9a-f]{40}"
_SHA256 = r"[0-9a-f]{64}"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_LOCAL = r"[a-z](?:[a-z0-9]*)"
_TARGET = r"sm_[1-9][0-9]{1,2}[af]?|any"


@dataclass(frozen=True)
class Submodule:
    """A submodule's path in its repository and the commit that it is pinned to."""

    path: str
    commit: str


@dataclass(frozen=True)
class GitSource:
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
class FileSource:
    """An sdist or a wheel of the package index, pinned by its SHA-256."""

    kind: str
    filename: str
    sha256: str

    @property
    def pin(self) -> str:
        """Name what is pinned, in one line."""
        return f"{self.filename}@sha256:{self.sha256}"


Source = GitSource | FileSource


@dataclass(frozen=True)
class GeneratedFile:
    """A file that forkwheel writes into the tree; ``{version}`` in its text is replaced."""

    path: str
    text: str


@dataclass(frozen=True)
class Substitution:
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
class Package:
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
        if candidate.is_file():
            return candidate.resolve()
    known = ", ".join(sorted(file.parent.name for file in recipes.glob("*/recipe.toml"))) or "none"
    raise UsageError(
        f"there is no recipe {name_or_path!r}", hint=f"recipes in {recipes.absolute()}: {known}; or give a path"
    )


def load_recipe(file: Path) -> Recipe:
    """Read and check a recipe; raise RecipeError, with file and line, at the first fault."""
    top = read_toml(file)
    head = top.section("recipe")
    assert head is not None
    number = head.integer("format", default=FORMAT, minimum=1)
    if number > FORMAT:
        head.fail(
            f"format {number} is newer than {FORMAT}, the newest known here",
            key="format",
            hint="use a newer forkwheel",
        )
    name = head.string("name", pattern=_NAME, what="a name of letters, digits, '.', '_' and '-'")
    packages = [_package(section) for section in top.sections("package")]
    if not packages:
        top.fail("no package", hint="add a [[package]] table")
    _check_distinct(top.sections("package"), packages)
    recipe = Recipe(
        name=name,
        local=head.string("local", pattern=_LOCAL, what="one lower-case word of letters and digits"),
        revision=head.integer("revision"),
        target=head.string("target", default=ANY_TARGET, pattern=_TARGET, what="a target such as sm_120a, or any"),
        summary=head.string("summary", default=""),
        packages=tuple(packages),
        file=file,
    )
    head.finish()
    top.finish()
    return recipe


def _check_distinct(sections: list[Section], packages: list[Package]) -> None:
    seen: dict[str, str] = {}
    for section, package in zip(sections, packages, strict=True):
        name = canonicalize_name(package.name)
        if name in seen:
            section.fail(f"package {package.name!r} is given twice", key="name", hint="remove one of them")
        seen[name] = package.name
    for section, package in zip(sections, packages, strict=True):
        for requirement in package.requires:
            known = dict(package.required_versions)
            if requirement not in known and canonicalize_name(Requirement(requirement).name) not in seen:
                section.fail(
                    f"`requires` names {requirement!r}, which is no package of this recipe",
                    key="requires",
                    hint="only requirements on the recipe's own packages are rewritten",
                )


def _package(section: Section) -> Package:
    name = section.string("name", pattern=_NAME, what="a distribution's name")
    version = section.string("version")
    _check_version(section, version)
    sources = _sources(section, name, version)
    package = Package(
        name=name,
        version=version,
        epoch=section.integer("epoch", minimum=315532800),
        sources=sources,
        series=_series(section),
        include=_patterns(section, "include"),
        exclude=_patterns(section, "exclude"),
        executable=_patterns(section, "executable"),
        generated=tuple(_generated(child) for child in section.sections("generated")),
        substitutions=tuple(_substitution(child) for child in section.sections("substitute")),
        manifest_file=_tree_path(section, "manifest_file"),
        version_file=_tree_path(section, "version_file"),
        requires=_requires(section),
        required_versions=_required_versions(section),
        must_contain=_patterns(section, "must_contain"),
        not_shipped=_patterns(section, "not_shipped"),
        environment=section.mapping("environment"),
        config_settings=section.mapping("config_settings"),
        jit_cache=_jit_cache(section.section("jit_cache", required=False)),
    )
    section.finish()
    return package


def _sources(section: Section, name: str, version: str) -> tuple[Source, ...]:
    """Read the sources; only wheels may be several, one for each Python and platform."""
    sources: list[Source] = []
    for child in section.sections("source"):
        source = _source(child, name, version)
        if source.kind != "wheel" and any(source.kind == other.kind for other in sources):
            child.fail(f"{name} has two sources of kind {source.kind}", key="kind", hint="remove one of them")
        sources.append(source)
    if not sources:
        section.fail(f"package {name!r} has no source", hint="add a [[package.source]] table")
    return tuple(sources)


def _check_version(section: Section, version: str) -> None:
    try:
        parsed = Version(version)
    except InvalidVersion:
        section.fail(f"{version!r} is not a version", key="version", hint="write it as PEP 440 says")
    if parsed.local or str(parsed) != version:
        section.fail(
            f"{version!r} is not a normalised public version",
            key="version",
            hint=f"write {parsed.public!r}; the local part is the recipe's",
        )


def _series(section: Section) -> Path | None:
    text = section.optional("series")
    if text is None:
        return None
    folder = (section.file.parent / text).resolve()
    if not (folder / "series").is_file():
        section.fail(
            f"the series {text!r} does not exist",
            key="series",
            hint=f"`series` is a folder, relative to the recipe, that holds a file named series ({folder})",
        )
    return folder


def _requires(section: Section) -> tuple[str, ...]:
    requirements = section.strings("requires")
    for text in requirements:
        try:
            specifiers = list(Requirement(text).specifier)
        except InvalidRequirement as error:
            section.fail(f"{text!r} is not a requirement: {error}", key="requires", hint="write NAME==VERSION")
        if len(specifiers) != 1 or specifiers[0].operator != "==":
            section.fail(f"{text!r} does not pin one version", key="requires", hint="write NAME==VERSION")
    return requirements


def _required_versions(section: Section) -> tuple[tuple[str, str], ...]:
    versions = section.mapping("required_versions")
    for requirement, version in versions:
        if requirement not in section.strings("requires"):
            section.fail(
                f"`required_versions` names {requirement!r}, which `requires` does not list",
                key="required_versions",
                hint="add it to `requires`, or remove it",
            )
        try:
            Version(version)
        except InvalidVersion:
            section.fail(f"{version!r} is not a version", key="required_versions", hint="write it as PEP 440 says")
    return versions


def _source(section: Section, name: str, version: str) -> Source:
    kind = section.string("kind", pattern="|".join(SOURCE_KINDS), what="one of " + ", ".join(SOURCE_KINDS))
    source = _git_source(section) if kind == "git" else _file_source(section, kind, name, version)
    section.finish()
    return source


def _git_source(section: Section) -> GitSource:
    url = section.string("url")
    if urlsplit(url).password:
        section.fail("`url` holds a password", key="url", hint="use git's own credential helpers instead")
    what = "a full commit of 40 lower-case hexadecimal digits"
    submodules = []
    for child in section.sections("submodule"):
        path = _tree_path(child, "path", required=True)
        assert path is not None
        submodules.append(Submodule(path, child.string("commit", pattern=_COMMIT, what=what)))
        child.finish()
        if len({submodule.path for submodule in submodules}) != len(submodules):
            child.fail(f"submodule {path!r} is given twice", key="path", hint="remove one of them")
    return GitSource(
        url=url,
        commit=section.string("commit", pattern=_COMMIT, what=what),
        tag=section.optional("tag", pattern=r"[^-\s:~^?*\[\\][^\s:~^?*\[\\]*", what="a tag's name"),
        subdirectory=_tree_path(section, "subdirectory") or "",
        submodules=tuple(submodules),
    )


def _file_source(section: Section, kind: str, name: str, version: str) -> FileSource:
    filename = section.string("filename", pattern=r"[^/\\\s]+", what="a file name without folders")
    try:
        parsed = parse_sdist_filename(filename) if kind == "sdist" else parse_wheel_filename(filename)
    except (InvalidSdistFilename, InvalidWheelFilename) as error:
        section.fail(f"{filename!r} is no {kind}'s file name: {error}", key="filename", hint="copy it from the index")
    if parsed[0] != canonicalize_name(name) or parsed[1] != Version(version):
        section.fail(
            f"{filename!r} is not of {name} {version}", key="filename", hint="correct the file name or the version"
        )
    sha256 = section.string("sha256", pattern=_SHA256, what="a SHA-256 of 64 lower-case hexadecimal digits")
    return FileSource(kind, filename, sha256)


def _patterns(section: Section, key: str) -> tuple[str, ...]:
    patterns = section.strings(key)
    for pattern in patterns:
        _check_inside(section, key, pattern)
    return patterns


def _tree_path(section: Section, key: str, *, required: bool = False) -> str | None:
    path = section.string(key) if required else section.optional(key)
    if path is not None:
        _check_inside(section, key, path)
    return path


def _check_inside(section: Section, key: str, path: str) -> None:
    if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        section.fail(f"{path!r} is not a plain relative path", key=key, hint="write it like folder/file, without '..'")


def _generated(section: Section) -> GeneratedFile:
    path = _tree_path(section, "path", required=True)
    assert path is not None
    generated = GeneratedFile(path, section.string("text"))
    section.finish()
    return generated


def _substitution(section: Section) -> Substitution:
    path = _tree_path(section, "path", required=True)
    assert path is not None
    substitution = Substitution(path, section.string("text"), section.string("replacement"))
    section.finish()
    return substitution


def _jit_cache(section: Section | None) -> JitCache | None:
    if section is None:
        return None
    path = _tree_path(section, "path", required=True)
    assert path is not None
    cache = JitCache(
        variable=section.string("variable", pattern=r"[A-Z_][A-Z0-9_]*", what="an environment variable's name"),
        path=path,
        clear=_jit_patterns(section, "clear"),
        locks=_jit_patterns(section, "locks"),
        distributions=section.strings("distributions"),
        prebuilt=_patterns(section, "prebuilt"),
    )
    if not cache.clear:
        section.fail("`clear` names nothing", key="clear", hint="name what is removed below a version's folder")
    _check_jit_locks(section, cache)
    section.finish()
    return cache


def _jit_patterns(section: Section, key: str) -> tuple[str, ...]:
    patterns = _patterns(section, key)
    for pattern in patterns:
        if "**" in pattern:
            section.fail(f"{pattern!r} spans folders", key=key, hint="write it like */folder/*, folder by folder")
    return patterns


def _check_jit_locks(section: Section, cache: JitCache) -> None:
    for lock in cache.locks:
        *folders, name = lock.split("/")
        if set(name) & set("*?") or any(set(part) & set("*?{}") and part != "*" for part in folders):
            section.fail(
                f"{lock!r} is no place of a lock: `*` may be a folder's whole name, `{{name}}` in the file's",
                key="locks",
                hint="write it like */folder/{name}.lock",
            )
        for pattern in cache.clear:
            parts = pattern.split("/")
            if any(part == "*" and parts[index : index + 1] != ["*"] for index, part in enumerate(folders)):
                section.fail(
                    f"the `*` of {lock!r} stands where {pattern!r} of `clear` has none",
                    key="locks",
                    hint="a `*` in `locks` stands for the same folder as in `clear`",
                )
