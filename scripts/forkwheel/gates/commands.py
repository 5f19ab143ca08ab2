"""The command ``audit``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.errors import UsageError, VerificationError
from forkwheel.fetch import FetchContext, parse_mirrors
from forkwheel.gates import table
from forkwheel.gates.arch import Arch, parse_arch
from forkwheel.gates.audit import audit
from forkwheel.gates.codec import audit_to_json
from forkwheel.gates.compare import Difference, check_consistent, compare, judge
from forkwheel.gates.explain_symbol import Definition, explain_symbol
from forkwheel.gates.files import opened
from forkwheel.gates.model import Audit
from forkwheel.gates.settings import Settings, load_settings, parse_entry
from forkwheel.recipe import SOURCE_KINDS, Recipe, find_recipe, load_recipe
from forkwheel.sources import patched_tree, source_tree
from forkwheel.store import Store, write_whole

_REFERENCES = "9.0,10.0"


def register(commands: Commands) -> None:
    """Add ``audit``."""
    parser = commands.add("audit", help="find every condition that keeps a GPU out")
    parser.add_argument("path", nargs="*", type=Path, help="folders, wheels or sdists to audit")
    parser.add_argument("--recipe", help="audit this recipe's trees, before and after its series")
    parser.add_argument("--target", help="compute capability asked about (default: the recipe's, or 12.0)")
    parser.add_argument("--reference", help=f"capabilities that have the feature (default: {_REFERENCES})")
    parser.add_argument(
        "--entry", action="append", default=[], metavar="MODULE:FUNCTION[@NAME]", help="where the path starts"
    )
    parser.add_argument("--gates", type=Path, help="a gates.toml (default: the recipe's)")
    parser.add_argument("--explain", metavar="SYMBOL", help="say where a name is defined and what it is per GPU")
    parser.add_argument("--all", action="store_true", help="list the gates that are not on the path, too")
    parser.add_argument("--sarif", type=Path, metavar="FILE", help="write a SARIF report")
    parser.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    parser.add_argument(
        "--mirror", action="append", default=[], metavar="URL=PATH", help="fetch a git URL from another place"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace, console: Console) -> int:
    if bool(options.path) == bool(options.recipe):
        raise UsageError("say what to audit: either paths or --recipe", hint="forkwheel audit PATH, or --recipe NAME")
    recipe = load_recipe(find_recipe(options.recipe, recipes=Path("recipes"))) if options.recipe else None
    settings = _settings(options, recipe)
    target = parse_arch(options.target or (recipe.target if recipe else "12.0"))
    with ExitStack() as stack:
        if recipe is not None:
            before, after = stack.enter_context(_recipe_trees(recipe, options, console))
        else:
            before, after = _opened_paths(options.path, stack), None
        if options.explain:
            return _explain(before, options.explain, target, settings, console)
        return _report(before, after, target, settings, options, console)


def _opened_paths(paths: list[Path], stack: ExitStack) -> dict[str, Path]:
    roots: dict[str, Path] = {}
    for path in paths:
        name = path.resolve().name if path.resolve().name not in roots else str(path)
        roots[name] = stack.enter_context(opened(path))
    return roots


def _settings(options: argparse.Namespace, recipe: Recipe | None) -> Settings:
    file = options.gates or (recipe.folder / "gates.toml" if recipe else None)
    settings = Settings((), (), (), ())
    if file is not None and (options.gates or file.is_file()):
        settings = load_settings(file)
    references = settings.references
    if options.reference or not references:
        references = tuple(parse_arch(text) for text in (options.reference or _REFERENCES).split(","))
    entries = tuple(map(parse_entry, options.entry)) or settings.entries
    return Settings(references, entries, settings.layers, settings.expectations)


@contextmanager
def _recipe_trees(
    recipe: Recipe, options: argparse.Namespace, console: Console
) -> Iterator[tuple[dict[str, Path], dict[str, Path]]]:
    context = FetchContext(
        store=Store.default(),
        log=console.bind(recipe.name),
        offline=options.offline,
        mirrors=parse_mirrors(options.mirror, os.environ),
    )
    with ExitStack() as stack:
        before, after = {}, {}
        for package in recipe.packages:
            before[package.name] = source_tree(package, context=context, kind=options.source).tree.root
            patched = stack.enter_context(patched_tree(package, context=context, kind=options.source))
            after[package.name] = patched.tree.root
        yield before, after


def _report(
    before: dict[str, Path],
    after: dict[str, Path] | None,
    target: Arch,
    settings: Settings,
    options: argparse.Namespace,
    console: Console,
) -> int:
    first = _audit(before, target, settings)
    last = _audit(after, target, settings) if after else first
    difference = compare(first, last) if after else None
    verdict = judge(last, settings.expectations)
    if options.sarif:
        write_whole(options.sarif, json.dumps(table.to_sarif(last, verdict), indent=2).encode())
    if console.json_mode:
        console.data(_document(first, last if after else None, difference))
    _show(first, "before the series" if after else "path", settings, options, console)
    if difference is not None:
        _show(last, "after the series", settings, options, console)
        console.table(table.DIFFERENCE_COLUMNS, table.difference_rows(difference), title="what the series changes")
    for failure in last.failures:
        console.line(failure, kind="warning")
    for expectation in verdict.vanished:
        console.line(f"gates.toml expects a closed gate in {expectation.file} that is not there", kind="warning")
    for line in table.summary(last, verdict):
        console.line(line)
    if difference is not None:
        check_consistent(first, last, expectations=settings.expectations)
    if verdict.unexpected:
        step = verdict.unexpected[0]
        raise VerificationError(
            f"{target} is kept out by {step.gate.place} ({step.layer}): {step.gate.condition}",
            hint="open the gate with a patch, or list it in gates.toml as [[expected]], with the reason",
        )
    return 0


def _audit(roots: dict[str, Path], target: Arch, settings: Settings) -> Audit:
    return audit(
        roots,
        target=target,
        references=settings.references,
        entries=settings.entries,
        layers=settings.layers,
        store=Store.default(),
    )


def _show(found: Audit, title: str, settings: Settings, options: argparse.Namespace, console: Console) -> None:
    rows = table.path_rows(found, judge(found, settings.expectations))
    if rows:
        console.table(table.PATH_COLUMNS, rows, title=title)
    if options.all or not settings.entries:
        columns = ("place", "kind", "condition", "admits", "guards")
        console.table(columns, table.elsewhere_rows(found), title="not on the path")


def _document(first: Audit, last: Audit | None, difference: Difference | None) -> dict[str, object]:
    document: dict[str, object] = {"schema": 1, "before" if last else "audit": audit_to_json(first)}
    if last is not None and difference is not None:
        document["after"] = audit_to_json(last)
        document["difference"] = [
            dict(zip(("change", "layer", "place", "condition"), row, strict=True))
            for row in table.difference_rows(difference)
        ]
    return document


def _explain(roots: dict[str, Path], symbol: str, target: Arch, settings: Settings, console: Console) -> int:
    found = explain_symbol(roots, symbol, target=target, references=settings.references)
    if console.json_mode:
        console.data({"schema": 1, "symbol": symbol, "definitions": [_definition(each) for each in found]})
    for each in found:
        console.line(f"{each.place}: {table.short(each.text, 160)}", kind="done")
        for place in each.exported_by:
            console.line(f"  handed on by {place}")
        for arch, value in each.values:
            console.line(f"  {arch}: {table.short(value, 160)}")
    return 0


def _definition(definition: Definition) -> dict[str, object]:
    return {
        "file": definition.place.path,
        "line": definition.place.line,
        "text": definition.text,
        "exported_by": [str(place) for place in definition.exported_by],
        "values": {str(arch): value for arch, value in definition.values},
    }
