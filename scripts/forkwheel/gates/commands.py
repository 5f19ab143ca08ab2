"""The command ``audit``."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import ExitStack
from pathlib import Path

from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.errors import UsageError, VerificationError
from forkwheel.fetch import FetchContext, parse_mirrors
from forkwheel.gates import table
from forkwheel.gates.arch import Arch, parse_arch
from forkwheel.gates.audit import audit_all
from forkwheel.gates.codec import audit_to_json
from forkwheel.gates.compare import Difference, check_consistent, compare, judge
from forkwheel.gates.deep import with_deep_stack
from forkwheel.gates.explain_symbol import Definition, explain_symbol
from forkwheel.gates.files import SourceFile, files_of, list_files, opened
from forkwheel.gates.model import Audit, Question
from forkwheel.gates.settings import Settings, load_settings, parse_entry
from forkwheel.options import add_mirror_option, add_recipe_option
from forkwheel.patching.apply import check_series
from forkwheel.patching.series import load_series
from forkwheel.recipe import SOURCE_KINDS, Recipe, find_recipe, load_recipe
from forkwheel.sources import source_tree
from forkwheel.store import Store, write_whole

_REFERENCES = "9.0,10.0"


def register(commands: Commands) -> None:
    """Add ``audit``."""
    parser = commands.add("audit", help="find every condition that keeps a GPU out")
    parser.add_argument("path", nargs="*", type=Path, help="folders, wheels or sdists to audit")
    add_recipe_option(parser, note="its trees are audited, before and after its series")
    parser.add_argument(
        "--target", metavar="CAPABILITY", help="compute capability asked about (default: the recipe's, or 12.0)"
    )
    parser.add_argument(
        "--reference", metavar="LIST", help=f"capabilities that have the feature (default: {_REFERENCES})"
    )
    parser.add_argument(
        "--entry", action="append", default=[], metavar="MODULE:FUNCTION[@NAME]", help="where the path starts"
    )
    parser.add_argument("--gates", type=Path, metavar="FILE", help="a gates.toml (default: the recipe's)")
    parser.add_argument("--explain", metavar="SYMBOL", help="say where a name is defined and what it is per GPU")
    parser.add_argument("--all", action="store_true", help="list the gates that are not on the path, too")
    parser.add_argument("--path-only", action="store_true", help="read only what the path leads to: a second's work")
    parser.add_argument("--sarif", type=Path, metavar="FILE", help="write a SARIF report")
    parser.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    add_mirror_option(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace, console: Console) -> int:
    if bool(options.path) == bool(options.recipe):
        raise UsageError("say what to audit: either paths or --recipe", hint="forkwheel audit PATH, or --recipe NAME")
    recipe = load_recipe(find_recipe(options.recipe, recipes=Path("recipes"))) if options.recipe else None
    settings = _settings(options, recipe)
    target = parse_arch(options.target if options.target is not None else recipe.target if recipe else "12.0")
    with ExitStack() as stack:
        if recipe is not None:
            before, after = _recipe_files(recipe, options, console)
        else:
            before, after = list_files(_opened_paths(options.path, stack)), None
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
    if options.reference is not None or not references:
        texts = _REFERENCES if options.reference is None else options.reference
        references = tuple(parse_arch(text) for text in texts.split(","))
    entries = tuple(map(parse_entry, options.entry)) or settings.entries
    return Settings(references, entries, settings.layers, settings.expectations)


def _recipe_files(
    recipe: Recipe, options: argparse.Namespace, console: Console
) -> tuple[list[SourceFile], list[SourceFile]]:
    """Return the files of a recipe's trees before and after its series."""
    context = FetchContext(
        store=Store.default(),
        log=console.bind(recipe.name),
        offline=options.offline,
        mirrors=parse_mirrors(options.mirror, os.environ),
    )
    before, after = [], []
    for package in recipe.packages:
        tree = source_tree(package, context=context, kind=options.source).tree
        before += files_of(package.name, tree)
        after += files_of(package.name, tree, check_series(load_series(package.series), tree))
    return before, after


def _report(
    before: list[SourceFile],
    after: list[SourceFile] | None,
    target: Arch,
    settings: Settings,
    options: argparse.Namespace,
    console: Console,
) -> int:
    question = Question(target, settings.references, settings.entries, settings.layers)
    states = [before] if after is None else [before, after]
    if options.path_only and not question.entries:
        raise UsageError(
            "there is no path without an entry", hint="name where it starts with --entry, or in gates.toml"
        )
    audits = audit_all(states, question, store=Store.default(), path_only=options.path_only)
    first, last = audits[0], audits[-1]
    difference = compare(first, last) if after is not None else None
    verdict = judge(last, settings.expectations)
    if options.sarif:
        write_whole(options.sarif, json.dumps(table.to_sarif(last, verdict), indent=2).encode())
    if console.json_mode:
        console.data(_document(first, last if after is not None else None, difference))
    _show(first, "path" if after is None else "before the series", settings, options, console)
    if difference is not None:
        _show(last, "after the series", settings, options, console)
        console.table(table.DIFFERENCE_COLUMNS, table.difference_rows(difference), title="what the series changes")
    for failure in last.failures:
        console.line(failure, kind="warning")
    for expectation in verdict.vanished:
        console.line(f"gates.toml expects a closed gate in {expectation.file} that is not there", kind="warning")
    for line in table.summary(last, verdict, has_entries=bool(question.entries)):
        console.line(line)
    if difference is not None:
        check_consistent(first, last, expectations=settings.expectations, difference=difference)
    if verdict.unexpected:
        step = verdict.unexpected[0]
        raise VerificationError(
            f"{target} is kept out by {step.gate.place} ({step.layer}): {step.gate.condition}",
            hint="open the gate with a patch, or list it in gates.toml as [[expected]], with the reason",
        )
    return 0


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


def _explain(files: list[SourceFile], symbol: str, target: Arch, settings: Settings, console: Console) -> int:
    found = with_deep_stack(lambda: explain_symbol(files, symbol, target=target, references=settings.references))
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
