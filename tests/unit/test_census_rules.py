from __future__ import annotations

from dataclasses import replace

import pytest

from forkwheel.cuda.census import Census, Kernel, census_document
from forkwheel.cuda.census_report import change_rows, changed_kernels, family_rows
from forkwheel.cuda.census_rules import Broken, CensusRules, Rule, check_rules, judged
from forkwheel.errors import VerificationError

GOOD = Kernel(
    name="void a::norm<float>()",
    family="a::norm",
    object="a.so#1",
    target="sm_120a",
    instructions=184,
    registers=32,
    stack=0,
    shared=1024,
    waits=1,
    launches=1,
    local=0,
)
RULE = Rule(("a::norm",), 2, grid_dependency=True, no_local=True, patch="guards.patch")
RULES = CensusRules("sm_120a", 24, ("a::init",), (RULE,))


def broken_rules(
    census: Census, rules: CensusRules, *, targets: list[str], partial: bool = False
) -> tuple[Broken, ...]:
    return judged(census, rules, targets=targets, partial=partial).broken


def taken(*kernels: Kernel) -> Census:
    return Census((("a.so#1", "0" * 64),), kernels)


def two(**changes: object) -> Census:
    other = replace(GOOD, name="void a::norm<half>()")
    return taken(replace(GOOD, **changes), other)  # type: ignore[arg-type]


def test_a_sound_module_breaks_no_rule() -> None:
    check_rules(two(), RULES, targets=["sm_120a"])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"instructions": 16}, "1 of 2 kernels are empty, of 16 instructions at most"),
        ({"waits": 0}, "1 of 2 kernels lack the grid-dependency wait"),
        ({"launches": 0}, "1 of 2 kernels lack the grid-dependency launch"),
        ({"local": 3}, "1 of 2 kernels use local memory"),
    ],
)
def test_each_breach_is_told_with_family_counts_and_patch(changes: dict[str, int], found: str) -> None:
    with pytest.raises(VerificationError) as caught:
        check_rules(two(**changes), RULES, targets=["sm_120a"])

    assert f"a::norm: {found}" in caught.value.message
    assert "guards.patch is probably missing" in caught.value.message
    assert "guards.patch" in caught.value.hint


def test_a_lost_kernel_is_told() -> None:
    (broken,) = broken_rules(taken(GOOD), RULES, targets=["sm_120a"])

    assert broken.found == "1 kernels, not 2"


def test_a_lost_family_is_told_unless_only_some_objects_were_read() -> None:
    other = replace(GOOD, family="b::other")

    (broken,) = broken_rules(taken(other), RULES, targets=["sm_120a"])

    assert broken.found == "there is no such kernel"
    assert not broken_rules(taken(other), RULES, targets=["sm_120a"], partial=True)


def test_a_kernel_for_another_target_is_told() -> None:
    messages = [str(item) for item in broken_rules(two(target="sm_90a"), RULES, targets=["sm_120a"])]

    assert messages == ["all: 1 kernels are for sm_90a, not for sm_120a"]


def test_a_target_without_kernels_is_told() -> None:
    messages = [str(item) for item in broken_rules(two(), RULES, targets=["sm_90a", "sm_120a"])]

    assert messages == ["all: no kernel is for sm_90a"]


def test_the_recipes_numbers_do_not_hold_for_other_targets() -> None:
    census = taken(replace(GOOD, target="sm_90a", waits=0))

    assert not broken_rules(census, RULES, targets=["sm_90a"])


def test_rules_that_were_not_checked_are_told() -> None:
    other = check_rules(taken(replace(GOOD, target="sm_90a")), RULES, targets=["sm_90a"])
    absent = check_rules(taken(replace(GOOD, family="b::other")), RULES, targets=["sm_120a"], partial=True)
    fewer = check_rules(taken(GOOD), RULES, targets=["sm_120a"], partial=True)

    assert (other.held, other.skipped) == (0, ("the 1 rules for sm_120a: this is sm_90a",))
    assert (absent.held, absent.skipped) == (0, ("a::norm: no such kernel is here",))
    assert (fewer.held, fewer.skipped) == (0, ("a::norm: 1 of the 2 kernels are here",))
    assert check_rules(two(), RULES, targets=["sm_120a"]).held == 1


def test_too_many_kernels_are_told_whatever_was_read() -> None:
    more = taken(*two().kernels, replace(GOOD, name="void a::norm<int>()"))

    (broken,) = broken_rules(more, RULES, targets=["sm_120a"], partial=True)

    assert broken.found == "3 kernels, not 2"


def test_a_breach_is_told_among_some_of_the_kernels_too() -> None:
    (broken,) = broken_rules(taken(replace(GOOD, waits=0)), RULES, targets=["sm_120a"], partial=True)

    assert "lack the grid-dependency wait" in broken.found


def test_the_rules_hold_for_their_target_among_several() -> None:
    older = [replace(kernel, target="sm_90a", waits=0) for kernel in two().kernels]
    both = ["sm_90a", "sm_120a"]

    assert check_rules(taken(*two().kernels, *older), RULES, targets=both).held == 1
    assert broken_rules(taken(*two(waits=0).kernels, *older), RULES, targets=both)


def test_emptiness_is_checked_for_every_target_and_family() -> None:
    census = taken(replace(GOOD, family="b::other", target="sm_90a", instructions=8))

    (broken,) = broken_rules(census, RULES, targets=["sm_90a"])

    assert "empty" in broken.found
    assert broken.patch is None


def test_a_named_family_may_be_empty() -> None:
    init = replace(GOOD, family="a::init", instructions=8)

    assert not broken_rules(taken(*two().kernels, init), RULES, targets=["sm_120a"])


def test_the_table_has_ranges_and_counts() -> None:
    (row,) = family_rows(two(instructions=200, waits=0, local=1))

    assert row == ("a::norm", "2", "184-200", "32", "1024", "0", "1/2", "1/2", "2/2")


def test_changes_are_told_family_by_family() -> None:
    before, after = two(), two(instructions=200, waits=0)

    rows = change_rows(before, after)

    assert ("a::norm", "waits", "2/2", "1/2") in rows
    assert ("a::norm", "instructions in all", "368", "384") in rows
    assert changed_kernels(before, after) == ["void a::norm<float>()"]
    assert not change_rows(before, before)


def test_a_name_that_is_there_for_two_targets_is_compared_whole() -> None:
    before = taken(GOOD, replace(GOOD, target="sm_90a"))
    after = taken(replace(GOOD, waits=0), replace(GOOD, target="sm_90a"))

    assert changed_kernels(before, after) == [GOOD.name]
    assert changed_kernels(before, taken(*reversed(before.kernels))) == []


def test_a_family_that_came_or_went_is_told() -> None:
    more = taken(*two().kernels, replace(GOOD, family="b::other", name="b::other()"))

    assert ("b::other", "kernels", "-", "1") in change_rows(two(), more)
    assert ("b::other", "kernels", "1", "-") in change_rows(more, two())


def test_the_document_has_a_schema_and_every_kernel() -> None:
    document = census_document(two())

    assert document["schema"] == 1
    assert document["families"]["a::norm"]["waiting"] == 2
    assert [kernel["name"] for kernel in document["kernels"]] == [kernel.name for kernel in two().kernels]
