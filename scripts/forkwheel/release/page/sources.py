"""The sections on what a set is made of: pins, patches, hashes, and how to build, verify and install it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from forkwheel.console import plural, readable_size
from forkwheel.patching.series import Patch
from forkwheel.release.page.markup import Content, Html, block, code, joined, keep, name, prose, section, table, tag
from forkwheel.release.page.record import Part, Report
from forkwheel.release.wheel_set import KERNELS, TAKEN, SetWheel


def day(epoch: int) -> str:
    """Return a date, in UTC."""
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%d")


def pins(report: Report) -> Html:
    """Return the section on the pins."""
    rows: list[list[Content]] = []
    for part in report.parts:
        entry = part.entry
        about = [keep(entry["name"]), entry["upstream_version"], keep(day(entry["epoch"]))]
        for source in entry["sources"]:
            rows.append([*about, source["kind"], _pin(source)])
            submodules = source.get("submodules", {})
            rows += [[*about, f"submodule {path}", code(commit)] for path, commit in submodules.items()]
    for wheel in (wheel for wheel in report.wheels.wheels if wheel.kind == TAKEN):
        rows.append([keep(wheel.package), wheel.version, "", "wheel, as it is", _file(wheel.filename, wheel.sha256)])
    inputs = [
        [item["name"], item["version"], keep(part.entry["name"]), joined((code(one) for one in item["hashes"]), " ")]
        for part in report.parts
        for item in part.entry["inputs"]
    ]
    text = "A package's git commit and sdist give the same tree; a wheel is patched in place. Every file in a wheel of "
    return section(
        "pins",
        "Pins",
        tag("p", text + "the fork carries the date."),
        table("Sources", ("package", "upstream", "date", "kind", "pin"), rows),
        tag(
            "details",
            tag("summary", f"Build requirements ({len(inputs)}), with the hashes of every file that may be installed"),
            table("Build requirements", ("name", "version", "for", "sha256"), inputs),
        ),
    )


def _pin(source: Mapping[str, Any]) -> Html:
    if source["kind"] != "git":
        return _file(source["filename"], source["sha256"])
    parts: list[Content] = [source["url"], tag("br"), code(source["commit"])]
    if source["tag"]:
        parts.append(f" (tag {source['tag']})")
    return joined(parts)


def _file(filename: str, sha256: str) -> Html:
    return joined([filename, tag("br"), code(sha256)])


def patches(report: Report) -> Html:
    """Return the section on the patches: each with its reason and its diff."""
    content: list[Content] = []
    for part in report.parts:
        count = len(part.series.patches)
        content.append(
            tag("h3", f"{part.entry['name']} {part.entry['upstream_version']}: {plural(count, 'patch')}, in order")
        )
        if count:
            content.append(
                table(f"Patches of {part.entry['name']}", ("patch", "what it is for"), map(_row, part.series.patches))
            )
        content += [_patch(patch) for patch in part.series.patches]
        if part.entry["requires"]:
            changed = "; ".join(f"{old} becomes =={new}" for old, new in sorted(part.entry["requires"].items()))
            content.append(tag("p", f"Beside the patches, a requirement is rewritten: {changed}."))
    return section("patches", "Patches", *content)


def _patch(patch: Patch) -> Html:
    header = patch.header
    first, *rest = header.description.splitlines() or [""]
    files = ", ".join(file.path for file in patch.files)
    upstream = header.applied_commit or ""
    if header.applied_upstream is not None:
        upstream = f"{header.applied_upstream} {upstream}".strip()
    facts: list[tuple[str, Content]] = [
        ("changes", files),
        ("origin", header.origin),
        ("forwarded", header.forwarded),
        ("upstream in", upstream or "not known"),
        ("drop after", str(header.drop_after or "not stated")),
        ("requires", ", ".join(header.requires) or "nothing"),
        ("last changed", header.last_update.isoformat()),
        ("sha256", code(patch.sha256)),
    ]
    reason = " ".join(line.strip() for line in rest)
    return tag(
        "article",
        tag("h4", patch.name, id_=_anchor(patch)),
        tag("p", tag("strong", *prose(_sentence(first)))),
        tag("p", *prose(reason)),
        tag("dl", *(joined([tag("dt", what), tag("dd", value)]) for what, value in facts)),
        tag("details", tag("summary", "The diff"), _diff(patch), open="open"),
    )


def _row(patch: Patch) -> list[Content]:
    description = (patch.header.description.splitlines() or [""])[0]
    return [tag("a", patch.name, href=f"#{_anchor(patch)}"), joined(prose(_sentence(description)))]


def _anchor(patch: Patch) -> str:
    return f"patch-{patch.sha256[:12]}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _diff(patch: Patch) -> Html:
    lines = patch.diff.decode("utf-8", "backslashreplace").split("\n")
    spans = [tag("span", line or " ", class_=_kind(line)) for line in (lines[:-1] if lines[-1] == "" else lines)]
    return tag("pre", tag("code", *spans), class_="diff", tabindex=0, role="region", aria_label=f"Diff of {patch.name}")


def _kind(line: str) -> str:
    if line.startswith(("--- ", "+++ ", "diff ", "index ", "rename ", "new file", "deleted file")):
        return "file"
    return {"@": "hunk", "+": "add", "-": "remove"}.get(line[:1], "same")


def hashes(report: Report) -> Html:
    """Return the section on the wheels and their hashes."""
    rows: list[list[Content]] = [
        [
            wheel.filename,
            readable_size(wheel.size),
            code(wheel.sha256),
            code(wheel.key) if wheel.key else "upstream's own",
        ]
        for wheel in report.wheels.wheels
    ]
    patched: list[list[Content]] = [
        [name(path), keep(part.entry["name"]), code(digest or "deleted")]
        for part in report.parts
        for path, digest in sorted(part.entry["patched_files"].items())
    ]
    return section(
        "hashes",
        "Wheels and hashes",
        table("Wheels", ("wheel", "size", "sha256", "build key"), rows, numbers=(1,)),
        table("Files that differ from upstream's, after the patches", ("file", "package", "sha256"), patched),
    )


def _key(wheel: SetWheel) -> Content:
    return code(wheel.key) if wheel.key else "upstream's own"


def again(report: Report) -> Html:
    """Return the section on how to reproduce, verify and install."""
    recipe, first = report.wheels.recipe, report.wheels.wheels[0].filename
    rebuild = f"forkwheel reproduce {first}\nforkwheel reproduce {recipe}.manifest.json\n"
    signed = f" --allowed-signers FILE   # also says who signed {recipe}.provenance.json" if report.signed else ""
    has_kernels = any(wheel.kind == KERNELS for wheel in report.wheels.wheels)
    kernels = "The kernels' wheel is compiled again with its whole set, which takes minutes and a C++ compiler."
    return section(
        "reproduce",
        "Reproduce, verify, install",
        tag("p", "Each wheel carries the recipe, pins, patches and locks that it was built from. On any Linux box with "
            "Python 3.10 to 3.13 and forkwheel, these build it again with no cache, and compare every byte:"),
        block(rebuild, label="Commands to reproduce"),
        *([tag("p", kernels)] if has_kernels else []),
        tag("p", "Wheels, manifest, provenance and install files are checked against one another by:"),
        block(f"forkwheel verify DIR{signed}\nsha256sum -c SHA256SUMS\n", label="Commands to verify"),
        tag("p", "Install the wheels first, by hash and without dependencies; then the dependencies, held to these "
            "versions:"),
        block("\n".join(_install(report)) + "\n", label="Commands to install"),
    )  # fmt: skip


def _install(report: Report) -> Iterator[str]:
    recipe = report.wheels.recipe
    packages = " ".join(_names(report))
    yield f"pip install --no-deps --require-hashes --index-url OUR_INDEX -r {recipe}.requirements.txt"
    yield f"pip install -c {recipe}.constraints.txt {packages}"


def _names(report: Report) -> list[str]:
    needed: set[Any] = {part.entry["name"] for part in report.parts}
    return sorted(needed)


def parts_line(part: Part) -> str:
    """Name a package and its versions in a line."""
    return f"{part.entry['name']} {part.entry['version']}"
