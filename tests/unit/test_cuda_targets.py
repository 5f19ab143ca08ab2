from __future__ import annotations

import pytest

from forkwheel.cuda.targets import parse_target, parse_targets
from forkwheel.errors import UsageError


@pytest.mark.parametrize("text", ["12.0a", "sm_120a"])
def test_both_spellings_are_one_target(text: str) -> None:
    target = parse_target(text)

    assert (target.name, target.capability) == ("sm_120a", "12.0a")


def test_a_list_is_sorted() -> None:
    targets = parse_targets("12.0a 9.0a")

    assert [target.name for target in targets] == ["sm_90a", "sm_120a"]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("12.0a", (12, 8)),
        ("12.0f", (12, 9)),
        ("12.1a", (12, 9)),
        ("10.3a", (12, 9)),
        ("11.0f", (13, 0)),
        ("9.0a", (12, 0)),
        ("8.9", (12, 0)),
    ],
)
def test_each_target_knows_the_compiler_that_it_needs(text: str, needed: tuple[int, int]) -> None:
    assert parse_target(text).needs_nvcc == needed


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("12.0", "no suffix"),
        ("sm_120", "no suffix"),
        ("9.0", "no suffix"),
        ("12.0a  9.0a", "doubled"),
        (" 12.0a", "outer space"),
        ("12.0a ", "outer space"),
        ("", "empty"),
        ("12.0a,9.0a", "','"),
        ("12.0a;9.0a", "';'"),
        ("12.0a\t9.0a", "separated"),
        ("12.0a sm_120a", "twice"),
        ("12.0b", "not a GPU target"),
        ("12", "not a GPU target"),
        ("120a", "not a GPU target"),
        ("compute_120a", "not a GPU target"),
        ("8.9a", "the suffix 'a', which begins with 9.0"),
        ("9.0f", "the suffix 'f', which begins with 10.0"),
    ],
)
def test_what_would_be_misread_is_refused(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_targets(text)

    assert part in caught.value.message
