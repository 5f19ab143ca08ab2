"""Read the tables of a package in a recipe: its sources, what is written into its tree, its JIT cache."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from forkwheel import recipe_keys
from forkwheel.plain_path import folders_of, name_fault, path_fault
from forkwheel.recipe import (
    SOURCE_KINDS,
    FileSource,
    GeneratedFile,
    GitSource,
    JitCache,
    Source,
    Submodule,
    Substitution,
)
from forkwheel.toml_file import Section, shown

_COMMIT = r"[0-9a-f]{40}"
_SHA256 = r"[0-9a-f]{64}"
_TAG = r"[^-\s:~^?*\[\\\x00-\x20\x7f][^\s:~^?*\[\\\x00-\x20\x7f]{0,199}"
_REMOTE_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")


def patterns(section: Section, key: str) -> tuple[str, ...]:
    """Return a list of patterns, each a plain relative path."""
    found = section.strings(key)
    for pattern in found:
        _check_path(section, key, pattern)
    return found


def tree_path(section: Section, key: str) -> str:
    """Return the path of a file of a tree, plain and relative."""
    path = section.string(key)
    _check_path(section, key, path)
    return path


def optional_tree_path(section: Section, key: str) -> str | None:
    """Return such a path, or None where the key is missing."""
    return tree_path(section, key) if key in section.table else None


def _check_path(section: Section, key: str, path: str) -> None:
    if fault := path_fault(path):
        section.fail(f"{shown(path)} is not a plain relative path", key=key, hint=fault)


def read_sources(section: Section, name: str, version: str) -> tuple[Source, ...]:
    """Read the sources; only wheels may be several, one for each Python and platform."""
    sources: list[Source] = []
    for child in section.sections("source"):
        source = _source(child, name, version)
        if source.kind != "wheel" and any(source.kind == other.kind for other in sources):
            child.fail(f"{name} has two sources of kind {source.kind}", key="kind", hint="remove one of them")
        if isinstance(source, FileSource) and any(
            source.filename == getattr(other, "filename", "") for other in sources
        ):
            child.fail(f"{source.filename!r} is given twice", key="filename", hint="remove one of them")
        sources.append(source)
    if not sources:
        section.fail(f"package {name!r} has no source", hint="add a [[package.source]] table")
    return tuple(sources)


def _source(section: Section, name: str, version: str) -> Source:
    section.expect(recipe_keys.FILE_SOURCE | recipe_keys.GIT_SOURCE)
    kind = section.string("kind", pattern="|".join(SOURCE_KINDS), what="one of " + ", ".join(SOURCE_KINDS))
    section.expect(recipe_keys.GIT_SOURCE if kind == "git" else recipe_keys.FILE_SOURCE)
    return _git_source(section) if kind == "git" else _file_source(section, kind, name, version)


def _git_source(section: Section) -> GitSource:
    submodules: list[Submodule] = []
    for child in section.sections("submodule"):
        child.expect(recipe_keys.SUBMODULE)
        path = tree_path(child, "path")
        if any(path == submodule.path for submodule in submodules):
            child.fail(f"submodule {shown(path)} is given twice", key="path", hint="remove one of them")
        submodules.append(Submodule(path, _commit(child)))
    return GitSource(
        url=_url(section),
        commit=_commit(section),
        tag=section.optional("tag", pattern=_TAG, what="a tag's name"),
        subdirectory=optional_tree_path(section, "subdirectory") or "",
        submodules=tuple(submodules),
        place=section.place("commit"),
    )


def _commit(section: Section) -> str:
    return section.string("commit", pattern=_COMMIT, what="a full commit of 40 lower-case hexadecimal digits")


def _url(section: Section) -> str:
    """Read a remote's URL, whose text is not repeated in errors: it may hold a password."""
    url = section.string("url")
    hint = "write it like https://HOST/PATH.git"
    if not url.isprintable() or " " in url:
        section.fail("`url` holds a blank or a control character", key="url", hint=hint)
    if url.startswith("-") or _REMOTE_HELPER.match(url):
        section.fail("`url` is not the URL of a git remote", key="url", hint=hint)
    try:
        has_password = bool(urlsplit(url).password)
    except ValueError as error:
        section.fail(f"`url` is not a URL: {error}", key="url", hint=hint)
    if has_password:
        section.fail("`url` holds a password", key="url", hint="use git's own credential helpers instead")
    return url


def _file_source(section: Section, kind: str, name: str, version: str) -> FileSource:
    filename = section.string("filename", pattern=r"[^/\\\s]+", what="a file name without folders")
    if fault := name_fault(filename):
        section.fail(f"{shown(filename)} is not a file's name: {fault}", key="filename", hint="copy it from the index")
    try:
        parsed = parse_sdist_filename(filename) if kind == "sdist" else parse_wheel_filename(filename)
    except (InvalidSdistFilename, InvalidWheelFilename) as error:
        section.fail(f"{filename!r} is no {kind}'s file name: {error}", key="filename", hint="copy it from the index")
    if parsed[0] != canonicalize_name(name) or parsed[1] != Version(version):
        section.fail(
            f"{filename!r} is not of {name} {version}", key="filename", hint="correct the file name or the version"
        )
    sha256 = section.string("sha256", pattern=_SHA256, what="a SHA-256 of 64 lower-case hexadecimal digits")
    return FileSource(kind, filename, sha256, place=section.place("sha256"))


def read_generated(section: Section) -> tuple[GeneratedFile, ...]:
    """Read the generated files, of which, ``manifest_file`` included, none may be in another's place."""
    taken: dict[str, Section] = {}
    generated = []
    for child in section.sections("generated"):
        child.expect(recipe_keys.GENERATED)
        path = tree_path(child, "path")
        _check_place(child, "path", path, taken)
        generated.append(GeneratedFile(path, child.string("text", allow_empty=True), place=child.place("path")))
        taken[path] = child
    if manifest := optional_tree_path(section, "manifest_file"):
        _check_place(section, "manifest_file", manifest, taken)
    return tuple(generated)


def _check_place(section: Section, key: str, path: str, taken: dict[str, Section]) -> None:
    for other, owner in taken.items():
        where = f"{other!r} of line {owner.line('path')}"
        if path == other:
            section.fail(f"{path!r} is generated twice", key=key, hint=f"remove it, or {where}")
        if path in folders_of(other) or other in folders_of(path):
            section.fail(f"{path!r} and {where} cannot both be files", key=key, hint="correct one of the paths")


def read_substitutions(section: Section) -> tuple[Substitution, ...]:
    """Read the substitutions; an empty replacement deletes the text."""
    substitutions = []
    for child in section.sections("substitute"):
        child.expect(recipe_keys.SUBSTITUTE)
        path, text = tree_path(child, "path"), child.string("text")
        replacement = child.string("replacement", allow_empty=True)
        substitutions.append(Substitution(path, text, replacement, place=child.place()))
    return tuple(substitutions)


def read_jit_cache(section: Section | None) -> JitCache | None:
    """Read where a package keeps what it compiled, if the recipe says so."""
    if section is None:
        return None
    section.expect(recipe_keys.JIT_CACHE)
    cache = JitCache(
        variable=section.string("variable", pattern=r"[A-Z_][A-Z0-9_]*", what="an environment variable's name"),
        path=tree_path(section, "path"),
        clear=_jit_patterns(section, "clear"),
        locks=_jit_patterns(section, "locks"),
        distributions=section.strings("distributions"),
        prebuilt=patterns(section, "prebuilt"),
    )
    if not cache.clear:
        section.fail("`clear` names nothing", key="clear", hint="name what is removed below a version's folder")
    _check_jit_locks(section, cache)
    return cache


def _jit_patterns(section: Section, key: str) -> tuple[str, ...]:
    found = patterns(section, key)
    for pattern in found:
        if "**" in pattern:
            section.fail(f"{shown(pattern)} spans folders", key=key, hint="write it like */folder/*, folder by folder")
    return found


def _check_jit_locks(section: Section, cache: JitCache) -> None:
    for lock in cache.locks:
        *folders, name = lock.split("/")
        if set(name) & set("*?") or any(set(part) & set("*?{}") and part != "*" for part in folders):
            section.fail(
                f"{shown(lock)} is no place of a lock: `*` may be a folder's whole name, `{{name}}` in the file's",
                key="locks",
                hint="write it like */folder/{name}.lock",
            )
        for pattern in cache.clear:
            parts = pattern.split("/")
            if any(part == "*" and parts[index : index + 1] != ["*"] for index, part in enumerate(folders)):
                section.fail(
                    f"the `*` of {shown(lock)} stands where {shown(pattern)} of `clear` has none",
                    key="locks",
                    hint="a `*` in `locks` stands for the same folder as in `clear`",
                )
