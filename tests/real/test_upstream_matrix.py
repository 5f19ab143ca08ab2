"""The real series against real FlashInfer releases: where upstream took what the patches do."""

from __future__ import annotations

import pytest

from forkwheel.fetch import FetchContext
from forkwheel.patching.series import load_series
from forkwheel.recipe import Recipe
from forkwheel.sources import source_tree
from forkwheel.upstream.matrix import Column, cell, courses, judge_revisions

RELEASES = ("0.6.3", "0.6.4", "0.6.15", "0.6.17")


@pytest.fixture(scope="module")
def columns(recipe: Recipe, context: FetchContext) -> dict[str, Column]:
    package = recipe.package("flashinfer-python")
    base = source_tree(package, context=context, kind="sdist").tree
    found = judge_revisions(package, load_series(package.series), base, RELEASES, context=context)
    return {column.revision: column for column in found}


def cells(column: Column) -> dict[str, str]:
    return {judged.name.removesuffix(".patch"): cell(judged) for judged in column.patches}


def test_the_release_that_the_series_is_made_for_is_clean(columns: dict[str, Column]) -> None:
    assert set(cells(columns["0.6.3"]).values()) == {"clean"}


def test_upstream_took_the_list_and_the_guards_to_the_letter(columns: dict[str, Column]) -> None:
    before, after = cells(columns["0.6.15"]), cells(columns["0.6.17"])
    assert before["allreduce-no-sm120-ceiling"] == "clean"
    assert after["allreduce-no-sm120-ceiling"] == "already-applied [taken 0.6.17]"
    assert before["jit-comm-admit-sm120"] == "offset +131"
    assert after["jit-comm-admit-sm120"] == "already-applied [taken 0.6.17]"


def test_all_thirteen_guards_are_judged_though_they_share_their_context(columns: dict[str, Column]) -> None:
    (guards,) = (judged for judged in columns["0.6.17"].patches if judged.name == "allreduce-no-sm120-ceiling.patch")
    assert [str(hunk.verdict) for hunk in guards.files[0].hunks] == ["already-applied"] * 13


def test_what_upstream_took_in_words_of_its_own_is_known_by_its_header(columns: dict[str, Column]) -> None:
    assert cells(columns["0.6.15"])["allreduce-lamport-pointer-stride"] == "clean"
    assert cells(columns["0.6.17"])["allreduce-lamport-pointer-stride"] == "conflict [taken 0.6.17]"
    assert cells(columns["0.6.4"])["allreduce-fusion-fp4-cluster-size"] == "conflict [taken 0.6.4]"
    assert cells(columns["0.6.4"])["allreduce-fusion-partial-warp-sum"] == "clean"
    assert cells(columns["0.6.15"])["allreduce-fusion-partial-warp-sum"] == "conflict [taken 0.6.15]"


def test_no_header_claims_a_release_before_the_source_changed(recipe: Recipe, columns: dict[str, Column]) -> None:
    series = load_series(recipe.package("flashinfer-python").series)
    for course in courses(series, list(columns.values())):
        if course.header is not None and course.applied_until is not None:
            taken = course.header.rpartition(" ")[2]
            assert RELEASES.index(course.applied_until) < RELEASES.index(taken)


def test_moved_guards_are_ambiguous_and_never_guessed(recipe: Recipe, context: FetchContext) -> None:
    from forkwheel.patching.overlay import File, Overlay
    from forkwheel.upstream.files import Layer
    from forkwheel.upstream.verdict import judge_series

    package = recipe.package("flashinfer-python")
    base = source_tree(package, context=context, kind="sdist").tree
    path = "include/flashinfer/comm/trtllm_allreduce.cuh"
    moved = Layer(Overlay(base))
    content = moved.read(path).content
    moved.put(path, File("100644", b"// one line more\n" + content))
    judged = judge_series(load_series(package.series), base, moved, version=None)
    (guards,) = (item for item in judged if item.name == "allreduce-no-sm120-ceiling.patch")
    found = [str(hunk.verdict) for hunk in guards.files[0].hunks]
    assert set(found) <= {"ambiguous", "offset +1"}
    assert found.count("ambiguous") >= 2
    assert guards.verdict == "ambiguous"
