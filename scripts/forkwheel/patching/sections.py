"""From the header lines of a diff's section to what it does to which file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from forkwheel.patching.fault import Place
from forkwheel.patching.model import CREATE, DELETE, MODIFY, RENAME, FilePatch, Hunk
from forkwheel.patching.names import decode, git_line_pairs, header_name, path_fault, unquote
from forkwheel.tree import EXECUTABLE, REGULAR

EXTENDED = (
    "old mode",
    "new mode",
    "new file mode",
    "deleted file mode",
    "similarity index",
    "dissimilarity index",
    "rename from",
    "rename to",
    "copy from",
    "copy to",
    "index",
)
"""The header lines that git writes after ``diff --git``, by their first words."""

_NOWHERE = b"/dev/null"
_SPECIAL_MODES = {"120000": "a symbolic link", "160000": "a submodule"}
_RECREATE = "make the patch again with `git diff`"


@dataclass(frozen=True)
class Names:
    """The ``---`` and ``+++`` lines of a section: place and text after the sign."""

    old_place: Place
    old: bytes
    new_place: Place
    new: bytes


@dataclass
class Section:
    """One file's section while it is read; ``fields`` map git's header lines to place and value."""

    place: Place
    git_line: bytes | None
    fields: dict[str, tuple[Place, bytes]] = field(default_factory=dict)
    names: Names | None = None
    hunks: tuple[Hunk, ...] = ()


def resolve(section: Section) -> FilePatch:
    """Work out what a section does, and refuse one whose lines disagree."""
    _refuse_copies(section)
    operation = _operation(section)
    old, new = _paths(section, operation)
    _check_git_line(section, old, new)
    old_mode, new_mode = _modes(section, operation)
    patch = FilePatch(
        line=section.place.line,
        operation=operation,
        old_path=None if operation == CREATE else _checked(section.place, old),
        new_path=None if operation == DELETE else _checked(section.place, new),
        old_mode=old_mode,
        new_mode=new_mode,
        hunks=section.hunks,
    )
    _check_effect(section, patch)
    return patch


def _refuse_copies(section: Section) -> None:
    for word in ("copy from", "copy to"):
        if word in section.fields:
            section.fields[word][0].fail("a copy is not supported", hint="make the patch with `git diff --no-renames`")


def _operation(section: Section) -> str:
    marks = [
        (CREATE, "new file mode" in section.fields),
        (DELETE, "deleted file mode" in section.fields),
        (RENAME, "rename from" in section.fields or "rename to" in section.fields),
    ]
    if section.git_line is None and section.names is not None:
        marks = [
            (CREATE, header_name(section.names.old) == _NOWHERE),
            (DELETE, header_name(section.names.new) == _NOWHERE),
        ]
    found = [operation for operation, present in marks if present]
    if len(found) > 1:
        section.place.fail(f"the section is a {' and a '.join(found)} at once", hint=_RECREATE)
    return found[0] if found else MODIFY


def _paths(section: Section, operation: str) -> tuple[bytes, bytes]:
    """Return the old and the new path; a creation or deletion has the same for both."""
    if operation == RENAME:
        old, new = _renamed(section)
    elif section.names is not None:
        old, new = _named(section.names, operation)
    else:
        assert section.git_line is not None
        pairs = [pair for pair in git_line_pairs(section.git_line) if pair[0][:2] == b"a/" and pair[1][:2] == b"b/"]
        same = {(old[2:], new[2:]) for old, new in pairs if old[2:] == new[2:]}
        if len(same) != 1:
            section.place.fail("`diff --git` does not name one file as a/NAME and b/NAME", hint=_RECREATE)
        old, new = same.pop()
    if operation == MODIFY and old != new:
        section.place.fail(
            f"the names disagree: {decode(old)!r} and {decode(new)!r}",
            hint="a renaming patch has `rename from` and `rename to` lines; " + _RECREATE,
        )
    return old, new


def _renamed(section: Section) -> tuple[bytes, bytes]:
    values = []
    for word in ("rename from", "rename to"):
        if word not in section.fields:
            section.place.fail(f"the renaming lacks its `{word}` line", hint=_RECREATE)
        place, text = section.fields[word]
        name = unquote(text) if text.startswith(b'"') else text
        values.append(name if name is not None else _bad_name(place, text))
    old, new = values
    if old == new:
        section.place.fail(f"{decode(old)!r} is renamed to itself", hint="remove the section")
    if section.names is not None and _named(section.names, RENAME) != (old, new):
        section.names.old_place.fail("`---` and `+++` do not name the renamed file", hint=_RECREATE)
    return old, new


def _named(names: Names, operation: str) -> tuple[bytes, bytes]:
    old = _prefixed(names.old_place, names.old, b"a/", nowhere=operation == CREATE)
    new = _prefixed(names.new_place, names.new, b"b/", nowhere=operation == DELETE)
    known = old if old is not None else new
    if known is None:
        names.old_place.fail("the section goes from /dev/null to /dev/null", hint=_RECREATE)
    return (old if old is not None else known), (new if new is not None else known)


def _prefixed(place: Place, text: bytes, prefix: bytes, *, nowhere: bool) -> bytes | None:
    name = header_name(text)
    if name is None:
        _bad_name(place, text)
    if (name == _NOWHERE) != nowhere:
        place.fail(
            f"{decode(name)!r} does not fit the rest of the section",
            hint="`/dev/null` stands for the missing side of a creation or deletion, and `diff --git` sections"
            " say so with `new file mode` or `deleted file mode` too",
        )
    if nowhere:
        return None
    if not name.startswith(prefix):
        place.fail(
            f"{decode(name)!r} does not start with {prefix.decode()!r}",
            hint="names are prefixed a/ and b/, as `git diff` does and `patch -p1` expects",
        )
    return name[2:]


def _bad_name(place: Place, text: bytes) -> NoReturn:
    place.fail(f"the quoted name {decode(text)!r} is malformed", hint=_RECREATE)


def _checked(place: Place, name: bytes) -> str:
    path = decode(name)
    if (fault := path_fault(path)) is not None:
        place.fail(f"the path {path!r} {fault}", hint="a patch changes files inside its tree only")
    return path


def _check_git_line(section: Section, old: bytes, new: bytes) -> None:
    if section.git_line is None:
        return
    if (b"a/" + old, b"b/" + new) not in git_line_pairs(section.git_line):
        section.place.fail(
            f"`diff --git` names {decode(section.git_line)!r}, but the lines below it"
            f" {decode(b'a/' + old)!r} and {decode(b'b/' + new)!r}",
            hint=_RECREATE,
        )


def _modes(section: Section, operation: str) -> tuple[str | None, str | None]:
    modes = {word: _mode(section, word) for word in ("old mode", "new mode", "new file mode", "deleted file mode")}
    index = _index_mode(section)
    if (modes["old mode"] is None) != (modes["new mode"] is None):
        section.place.fail("`old mode` and `new mode` come together", hint=_RECREATE)
    old = modes["deleted file mode"] or modes["old mode"]
    new = modes["new file mode"] or modes["new mode"]
    if operation in (CREATE, DELETE) and modes["old mode"] is not None:
        section.place.fail(f"a {operation} cannot change the mode too", hint=_RECREATE)
    if index is not None and any(mode not in (None, index) for mode in (old, new)):
        section.fields["index"][0].fail(f"the `index` line says mode {index}, another line differs", hint=_RECREATE)
    if operation in (MODIFY, RENAME) and old is None:
        return index, index
    return old, new


def _mode(section: Section, word: str) -> str | None:
    if word not in section.fields:
        return None
    place, value = section.fields[word]
    return _known_mode(place, decode(value))


def _index_mode(section: Section) -> str | None:
    if "index" not in section.fields:
        return None
    place, value = section.fields["index"]
    parts = decode(value).split(" ")
    if len(parts) > 2:
        place.fail("the `index` line is malformed", hint=_RECREATE)
    return _known_mode(place, parts[1]) if len(parts) == 2 else None


def _known_mode(place: Place, mode: str) -> str:
    if mode in _SPECIAL_MODES:
        place.fail(f"mode {mode} is {_SPECIAL_MODES[mode]}", hint="a patch changes regular files only")
    if mode not in (REGULAR, EXECUTABLE):
        place.fail(f"mode {mode!r} is none of {REGULAR} and {EXECUTABLE}", hint=_RECREATE)
    return mode


def _check_effect(section: Section, patch: FilePatch) -> None:
    same_mode = patch.old_mode == patch.new_mode
    if patch.operation == MODIFY and same_mode and ("old mode" in section.fields or not patch.hunks):
        section.place.fail(f"the section changes nothing of {patch.path}", hint="remove it")
    if "similarity index" not in section.fields:
        return
    place, value = section.fields["similarity index"]
    if patch.operation != RENAME or (value == b"100%") == bool(patch.hunks):
        place.fail(
            f"`similarity index {decode(value)}` does not fit: the section is a {patch.operation}"
            f" with {len(patch.hunks)} hunks",
            hint=_RECREATE,
        )
