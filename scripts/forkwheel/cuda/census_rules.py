"""What must hold for the kernels of a recipe, and which patch is missing where it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from forkwheel.cuda.census import Census, Family
from forkwheel.cuda.targets import parse_target
from forkwheel.errors import UsageError, VerificationError
from forkwheel.toml_file import Section


@dataclass(frozen=True)
class Rule:
    """What must hold for the families that match one of ``families`` (patterns, ``*`` and ``?``).

    ``kernels`` is their number of instances together; ``grid_dependency`` asks for a wait and
    a launch in each instance; ``no_local`` forbids local memory, where spills go; ``patch`` is
    what makes it hold.
    """

    families: tuple[str, ...]
    kernels: int | None
    grid_dependency: bool
    no_local: bool
    patch: str | None

    def matches(self, name: str) -> bool:
        """Tell whether the rule is about a family."""
        return any(fnmatchcase(name, pattern) for pattern in self.families)


@dataclass(frozen=True)
class CensusRules:
    """All rules of a recipe, which hold for ``target``.

    A kernel of at most ``empty`` instructions does nothing, which only ``may_be_empty`` may.
    """

    target: str
    empty: int
    may_be_empty: tuple[str, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Broken:
    """A rule that does not hold: the families, what was found, and the patch that is probably missing."""

    families: str
    found: str
    patch: str | None

    def __str__(self) -> str:
        missing = f"; {self.patch} is probably missing" if self.patch else ""
        return f"{self.families}: {self.found}{missing}"


@dataclass(frozen=True)
class Checked:
    """What a check came to: how many rules hold, those that do not, and those that could not be checked, with why."""

    held: int
    broken: tuple[Broken, ...]
    skipped: tuple[str, ...]


def read_rules(section: Section) -> CensusRules:
    """Read the ``census`` table of kernels.toml."""
    rules = CensusRules(
        target=_target(section),
        empty=section.integer("empty", minimum=1),
        may_be_empty=section.strings("may_be_empty"),
        rules=tuple(_rule(child) for child in section.sections("rule")),
    )
    section.finish()
    return rules


def _target(section: Section) -> str:
    text = section.string("target")
    try:
        return parse_target(text).name
    except UsageError as error:
        section.fail(f"`target`: {error.message}", key="target", hint=error.hint)


def _rule(section: Section) -> Rule:
    families = section.strings("families")
    if not families:
        section.fail("the rule is about nothing", hint="name the `families`; * stands for anything")
    rule = Rule(
        families=families,
        kernels=section.integer("kernels", minimum=1) if "kernels" in section.table else None,
        grid_dependency=section.flag("grid_dependency", default=False),
        no_local=section.flag("no_local", default=False),
        patch=section.optional("patch"),
    )
    section.finish()
    return rule


def check_rules(census: Census, rules: CensusRules, *, targets: Sequence[str], partial: bool = False) -> Checked:
    """Raise VerificationError that names every broken rule, with counts and the patch that is probably missing.

    ``targets`` are what the objects must be for. ``partial`` tells that not all objects were
    read, so that a family may be absent or smaller.
    """
    checked = judged(census, rules, targets=targets, partial=partial)
    if not checked.broken:
        return checked
    patches = sorted({item.patch for item in checked.broken if item.patch})
    count = len(checked.broken)
    raise VerificationError(
        f"the kernel census breaks {count} rule{'s' * (count > 1)}:\n"
        + "\n".join(f"  {item}" for item in checked.broken),
        hint=f"see that the series holds {', '.join(patches)}" if patches else "see what changed in the sources",
    )


def judged(census: Census, rules: CensusRules, *, targets: Sequence[str], partial: bool = False) -> Checked:
    """Judge every rule: of those for families, only where the kernels are for the rules' own target."""
    broken = [*_foreign(census, targets)]
    for family in census.families:
        broken += _emptiness(family, rules)
    if rules.target not in targets:
        named = ", ".join(targets)
        return Checked(0, tuple(broken), (f"the {len(rules.rules)} rules for {rules.target}: this is {named}",))
    others = set(targets) - {rules.target}
    families = Census((), tuple(kernel for kernel in census.kernels if kernel.target not in others)).families
    held, skipped = 0, []
    for rule in rules.rules:
        breaches, reasons = list(_breaches(rule, families, partial=partial)), list(_unjudged(rule, families))
        broken += breaches
        skipped += [f"{', '.join(rule.families)}: {reason}" for reason in reasons if partial]
        held += not breaches and not (partial and reasons)
    return Checked(held, tuple(broken), tuple(skipped))


def _unjudged(rule: Rule, families: Iterable[Family]) -> Iterator[str]:
    """Yield why a rule can't be judged by some of all objects."""
    count = sum(len(family.kernels) for family in families if rule.matches(family.name))
    if not count:
        yield "no such kernel is here"
    elif rule.kernels is not None and count < rule.kernels:
        yield f"{count} of the {rule.kernels} kernels are here"


def _foreign(census: Census, targets: Sequence[str]) -> Iterator[Broken]:
    for target in census.targets:
        if target not in targets:
            count = sum(kernel.target == target for kernel in census.kernels)
            wanted = ", ".join(targets)
            yield Broken("all", f"{count} kernels are for {target or 'an unknown target'}, not for {wanted}", None)
    for target in targets:
        if target not in census.targets:
            yield Broken("all", f"no kernel is for {target}", None)


def _emptiness(family: Family, rules: CensusRules) -> Iterator[Broken]:
    empty = [kernel for kernel in family.kernels if kernel.instructions <= rules.empty]
    if not empty or any(fnmatchcase(family.name, pattern) for pattern in rules.may_be_empty):
        return
    most = max(kernel.instructions for kernel in empty)
    patch = next((rule.patch for rule in rules.rules if rule.patch and rule.matches(family.name)), None)
    found = f"{len(empty)} of {len(family.kernels)} kernels are empty, of {most} instructions at most"
    yield Broken(family.name, found, patch)


def _breaches(rule: Rule, families: Iterable[Family], *, partial: bool) -> Iterator[Broken]:
    matching = [family for family in families if rule.matches(family.name)]
    patterns = ", ".join(rule.families)
    count = sum(len(family.kernels) for family in matching)
    if not matching:
        if not partial:
            yield Broken(patterns, "there is no such kernel", rule.patch)
        return
    if rule.kernels is not None and (count > rule.kernels or (count < rule.kernels and not partial)):
        yield Broken(patterns, f"{count} kernels, not {rule.kernels}", rule.patch)
    for family in matching:
        yield from _family_breaches(rule, family)


def _family_breaches(rule: Rule, family: Family) -> Iterator[Broken]:
    total = len(family.kernels)
    if rule.grid_dependency:
        for what, with_it in (
            ("wait (ACQBULK)", family.count(lambda kernel: kernel.waits > 0)),
            ("launch (PREEXIT)", family.count(lambda kernel: kernel.launches > 0)),
        ):
            if with_it < total:
                yield Broken(
                    family.name, f"{total - with_it} of {total} kernels lack the grid-dependency {what}", rule.patch
                )
    spilling = family.count(lambda kernel: kernel.local > 0)
    if rule.no_local and spilling:
        yield Broken(family.name, f"{spilling} of {total} kernels use local memory, where spills go", rule.patch)
