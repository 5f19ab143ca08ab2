from __future__ import annotations

from dataclasses import replace

import pytest

from forkwheel.cuda.census import Census, Kernel, census_document
from forkwheel.cuda.census_report import change_rows, changed_kernels, family_rows
from forkwheel.cuda.census_rules import CensusRules, Rule, broken_rules, check_rules
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


def test_a_family_that_came_or_went_is_told() -> None:
    more = taken(*two().kernels, replace(GOOD, family="b::other", name="b::other()"))

    assert ("b::other", "kernels", "-", "1") in change_rows(two(), more)
    assert ("b::other", "kernels", "1", "-") in change_rows(more, two())


def test_the_document_has_a_schema_and_every_kernel() -> None:
    document = census_document(two())

    assert document["schema"] == 1
    assert document["families"]["a::norm"]["waiting"] == 2
    assert [kernel["name"] for kernel in document["kernels"]] == [kernel.name for kernel in two().kernels]
