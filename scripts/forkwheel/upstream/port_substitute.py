"""The texts that a recipe substitutes, on the new source of a port."""

from __future__ import annotations

import re
from dataclasses import replace

from forkwheel.recipe import Package, Substitution
from forkwheel.toml_file import shown
from forkwheel.upstream.files import Files


def carried_substitutions(old: Package, new: Package, files: Files) -> tuple[tuple[Substitution, ...], list[str]]:
    """Return a package's substitutions for the new source, patched already, and what a person has to mend.

    A text that no longer stands exactly once is tried with the new version in the place of
    the old one; where that does not help, it stays as it is, with a note.
    """
    version = re.compile(rf"(?<![\w.]){re.escape(old.version)}(?!\w|\.\w)")
    contents: dict[str, bytes] = {}
    made, notes = [], []
    for item in old.substitutions:
        if item.path not in files or files.is_link(item.path):
            notes.append(_note(new, f"{new.version} has no file {item.path}"))
            made.append(item)
            continue
        content = contents[item.path] if item.path in contents else files.read(item.path).content
        renewed = replace(
            item, text=version.sub(new.version, item.text), replacement=version.sub(new.version, item.replacement)
        )
        fitting = next((one for one in (item, renewed) if content.count(one.text.encode()) == 1), None)
        if fitting is None:
            found = content.count(item.text.encode())
            notes.append(_note(new, f"{shown(item.text)} stands {found} times in {item.path}, not once"))
        else:
            contents[item.path] = content.replace(fitting.text.encode(), fitting.replacement.encode())
        made.append(fitting or item)
    notes += [
        f"`generated` of {new.name}: {new.version} has {item.path} itself: add it to `exclude`, or it does not build"
        for item in old.generated
        if item.path in files
    ]
    return tuple(made), notes


def _note(package: Package, fault: str) -> str:
    return f"`substitute` of {package.name}: {fault}: correct it in the new recipe, or it does not build"
