"""The projection of a fetched tree: what is patched and built, equal from every source.

A git checkout, an sdist and a wheel of one version differ in files that no build needs,
in generated files and in modes. The recipe says what is kept; here modes become the
recipe's, so that one digest names the tree whichever source served it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from forkwheel.errors import RecipeError, VerificationError
from forkwheel.patterns import matches
from forkwheel.plain_path import folders_of, name_fault
from forkwheel.recipe import Package
from forkwheel.toml_file import shown
from forkwheel.tree import EXECUTABLE, REGULAR, SYMLINK, Entry, Tree, read_entry, walk

FORMAT = 1


def projection_id(package: Package) -> str:
    """Name the projection's settings: trees made under other settings are other trees."""
    settings = (FORMAT, package.include, package.exclude, package.executable)
    return sha256(repr(settings).encode()).hexdigest()


def project(root: Path, package: Package) -> Tree:
    """Reduce the tree at ``root`` in place to its projection and describe it.

    Raises RecipeError where a pattern of ``include`` or ``executable`` matches nothing, since
    it is then a mistake or the source is not what the recipe was written for.
    """
    names = walk(root)
    kept = [name for name in names if _is_kept(name, package)]
    for field, patterns in (("include", package.include), ("executable", package.executable)):
        for pattern in patterns:
            if not any(matches(name, (pattern,)) for name in kept):
                raise RecipeError(
                    f"{package.at}`{field}` of {package.name}: {pattern!r} matches no file of the source",
                    hint="correct the pattern; paths start at the folder that holds the project",
                )
    for name in set(names) - set(kept):
        (root / name).unlink()
    _remove_empty_folders(root)
    entries = [_normalise(root / name, name, package) for name in kept]
    return Tree(root, tuple(sorted(entries)))


def _is_kept(name: str, package: Package) -> bool:
    included = not package.include or matches(name, package.include)
    return included and not matches(name, package.exclude)


def _normalise(path: Path, name: str, package: Package) -> Entry:
    if not path.is_symlink():
        path.chmod(0o755 if matches(name, package.executable) else 0o644)
    return read_entry(path, name)


def _remove_empty_folders(root: Path) -> None:
    for folder, _, _ in os.walk(root, topdown=False):
        if folder != str(root) and not os.listdir(folder):
            os.rmdir(folder)


def copy_tree(tree: Tree, dest: Path) -> Tree:
    """Copy a tree to the new folder ``dest``, checking every file's content on the way.

    Raises VerificationError where a file is not what its entry says.
    """
    for folder in sorted({os.path.dirname(entry.path) for entry in tree.entries}):
        os.makedirs(dest / folder, exist_ok=True)
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda entry: _copy(tree.root, entry, dest), tree.entries))
    return Tree(dest, tree.entries)


def _copy(root: Path, entry: Entry, dest: Path) -> None:
    source, target = f"{root}/{entry.path}", f"{dest}/{entry.path}"
    try:
        if entry.mode == SYMLINK:
            content = os.fsencode(os.readlink(source))
            os.symlink(content, os.fsencode(target))
        else:
            content = _copy_file(source, target, 0o755 if entry.mode == EXECUTABLE else 0o644)
    except FileExistsError:
        raise
    except OSError as error:
        if error.filename not in (source, os.fsencode(source)):
            raise
        raise _altered(root, entry, f"it cannot be read: {error.strerror}") from error
    found = sha256(content).hexdigest()
    if found != entry.sha256:
        raise _altered(root, entry, f"its sha256 is {found}, not {entry.sha256}")


def _copy_file(source: str, target: str, mode: int) -> bytes:
    with open(source, "rb", buffering=0) as file:
        content = file.read()
    with open(target, "xb", buffering=0, opener=lambda path, flags: os.open(path, flags, mode)) as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
    return content


def _altered(root: Path, entry: Entry, how: str) -> VerificationError:
    return VerificationError(
        f"{root}/{entry.path} in the cache was altered: {how}",
        hint=f"remove the folder {root.parent} and run again",
    )


def write_generated(tree: Tree, package: Package, *, version: str) -> Tree:
    """Write what the recipe generates into a tree: files, substitutions, and the list of the tree's files.

    Raises RecipeError, before anything is written, where a generated file is in the tree
    already or has no place there, a text to be substituted does not stand exactly once in its
    file, or a name of the tree cannot be listed.
    """
    present = tree.by_path()
    contents = {item.path: item.text.replace("{version}", version).encode() for item in package.generated}
    if package.manifest_file is not None:
        names = [*present, *contents, package.manifest_file]
        contents[package.manifest_file] = _listed(names, package).encode()
    for name in contents:
        _check_place(name, present, package)
    contents |= _substituted(tree, package, version=version)
    entries = dict(present)
    for name, content in contents.items():
        (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / name).write_bytes(content)
        mode = present[name].mode if name in present else REGULAR
        (tree.root / name).chmod(0o755 if mode == EXECUTABLE else 0o644)
        entries[name] = Entry(name, mode, sha256(content).hexdigest())
    return Tree(tree.root, tuple(sorted(entries.values())))


def _listed(names: list[str], package: Package) -> str:
    for name in names:
        if fault := name_fault(name):
            raise RecipeError(
                f"{package.at}`manifest_file` of {package.name} cannot list {shown(name)} of the source: {fault}",
                hint="add a pattern that matches it to `exclude`",
            )
    return "".join(f"{name}\n" for name in sorted(names))


def _check_place(name: str, present: Mapping[str, Entry], package: Package) -> None:
    """Refuse a generated file where the tree has a file or a folder, and below a file or a link."""
    at = next((item.at for item in package.generated if item.path == name), package.at)
    if name in present:
        raise RecipeError(
            f"{at}{package.name}: {name} is generated, but the source has it too",
            hint=f"add {name!r} to `exclude`",
        )
    if inside := next((path for path in present if path.startswith(f"{name}/")), None):
        raise RecipeError(
            f"{at}{package.name}: {name} is generated, but it is a folder of the source, with {inside}",
            hint="correct the path",
        )
    if above := next((folder for folder in folders_of(name) if folder in present), None):
        kind = "a link" if present[above].mode == SYMLINK else "a file"
        raise RecipeError(
            f"{at}{package.name}: {name} is generated, but {above} is {kind} of the source, not a folder",
            hint=f"correct the path, or add {above!r} to `exclude`",
        )


def _substituted(tree: Tree, package: Package, *, version: str) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    present = tree.by_path()
    for item in package.substitutions:
        if item.path not in present or present[item.path].mode == SYMLINK:
            raise RecipeError(
                f"{item.at}`substitute` of {package.name}: the source has no file {item.path}", hint="correct the path"
            )
        content = contents[item.path] if item.path in contents else (tree.root / item.path).read_bytes()
        found = content.count(item.text.encode())
        if found != 1:
            raise RecipeError(
                f"{item.at}`substitute` of {package.name}: {shown(item.text)} stands {found} times in {item.path},"
                " not once",
                hint="give a text that stands there exactly once",
            )
        contents[item.path] = content.replace(
            item.text.encode(), item.replacement.replace("{version}", version).encode()
        )
    return contents
