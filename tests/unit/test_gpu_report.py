import json
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_support import RECIPE, setting

from forkwheel.gpu import verdict
from forkwheel.gpu.advice import Point
from forkwheel.gpu.bench import BenchResult, bench_cases, make_point
from forkwheel.gpu.checks import failed, passed, skipped
from forkwheel.gpu.evidence import evidence, evidence_state
from forkwheel.gpu.plan_file import load_plan
from forkwheel.gpu.plot import write_plot
from forkwheel.gpu.report import bench_document, bench_rows
from forkwheel.gpu.statistics import Timing
from forkwheel.gpu.verdict import architecture_of, smoke_document, statement

DATE = "2026-01-02T03:04:05+00:00"


def complete():
    return [passed(f"{operation.name} norm bfloat16, 2 ranks", "fine") for operation in load_plan(RECIPE).operations]


def bench_setting():
    """Of the sizes that ``bench_result`` has, so that none counts as missing."""
    made = setting()
    return replace(made, plan=replace(made.plan, bench=replace(made.plan.bench, tokens=(1, 64, 2048), hidden=(4096,))))


def bench_result():
    times = {1: (4.0, 13.0), 64: (8.0, 16.0), 2048: (200.0, 190.0)}
    points = tuple(
        Point(
            2, 4096, tokens, {"one-shot": Timing(fused, fused, fused, 0.0)}, {"nccl": Timing(other, other, other, 0.01)}
        )
        for tokens, (fused, other) in times.items()
    )
    return BenchResult(points, ("two-shot: too few tokens",), ())


def test_a_run_on_another_architecture_says_so_throughout():
    document = smoke_document(setting(), complete(), date=DATE, kind="smoke")

    assert document["statement"] == "ran on 2 x NVIDIA H200 (SM90); SM120 was not run"
    assert document["gpu"]["architecture"] == "SM90"
    assert document["ran_on_target"] is False


def test_a_run_on_the_target_says_only_that():
    assert statement(setting((12, 0), "RTX PRO 6000")) == "ran on 2 x RTX PRO 6000 (SM120)"


def test_everything_that_ran_passed():
    document = smoke_document(setting(), [*complete(), skipped("fp4", "no")], date=DATE, kind="smoke")

    assert (document["verdict"], document["counts"]) == ("PASS", {"PASS": 3, "FAIL": 0, "SKIP": 1})
    assert [wheel["sha256"] for wheel in document["wheels"]] == ["a" * 64, "b" * 64]
    json.dumps(document)


def test_the_record_holds_none_of_this_machines_folders():
    one = replace(setting(), work=Path("/some/where/run-1"))
    check = failed("x", f"/some/where/run-1/env/a.so, File {verdict.__file__}")

    document = smoke_document(one, [check], date=DATE, kind="smoke")

    assert document["checks"][0]["detail"] == "WORK/env/a.so, File FORKWHEEL/forkwheel/gpu/verdict.py"


def test_one_failure_fails_the_run():
    document = smoke_document(setting(), [*complete(), failed("x", "bad")], date=DATE, kind="smoke")

    assert document["verdict"] == "FAIL"


def test_a_matrix_that_did_not_run_is_no_pass():
    document = smoke_document(setting(), [passed("gpus", "two")], date=DATE, kind="smoke")

    assert document["verdict"] == "FAIL"
    assert "trtllm_custom_all_reduce, 2 ranks" in document["not_run"]


@pytest.mark.parametrize(("target", "architecture"), [("sm_120a", "SM120"), ("sm_90a", "SM90"), ("sm_121", "SM121")])
def test_a_target_is_for_one_architecture(target, architecture):
    assert architecture_of(target) == architecture


@pytest.mark.parametrize(
    ("locked", "state"), [(["a", "b"], "current"), (["a"], "current"), (["a", "c"], "stale"), ([], "stale")]
)
def test_evidence_for_other_wheels_than_the_locks_is_stale(locked, state):
    document = {"wheels": [{"sha256": "a"}, {"sha256": "b"}]}

    assert evidence_state(document, locked) == state


def test_the_bench_document_ends_with_advice_in_one_line():
    document = bench_document(bench_setting(), bench_result(), date=DATE)

    assert document["advice"]["worlds"] == {"2": {"kind": "limited", "tokens": 64}}
    assert "fusion wins up to 64 tokens" in document["advice"]["line"]
    assert "FUSE_ALLREDUCE_MAX_BATCH_SIZE" in document["advice"]["line"]
    assert "\n" not in document["advice"]["line"]
    assert 1024 < document["crossovers"][0]["tokens"] < 2048


def test_a_bench_that_compared_nothing_gives_no_advice():
    document = bench_document(setting(), BenchResult((), (), ()), date=DATE)

    assert document["advice"]["line"] == "nothing could be compared here, so there is no advice"


def test_the_table_has_a_row_for_each_shape_with_its_spread():
    columns, rows = bench_rows(bench_document(bench_setting(), bench_result(), date=DATE))

    assert columns == ["ranks", "hidden", "tokens", "fused one-shot, us", "nccl, us", "ratio", "wins"]
    assert rows[0] == ["2", "4096", "1", "4.0 ± 0 %", "13.0 ± 1 %", "0.31", "yes"]
    assert rows[2][-1] == "no"


def test_the_plot_is_written_as_png_and_svg_and_is_the_same_each_time(tmp_path):
    document = bench_document(bench_setting(), bench_result(), date=DATE)

    write_plot(document, tmp_path / "one")
    write_plot(document, tmp_path / "two")

    assert (tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "SM90" in (tmp_path / "one.svg").read_text()


def test_nothing_is_drawn_of_nothing(tmp_path):
    assert write_plot(bench_document(setting(), BenchResult((), (), ()), date=DATE), tmp_path / "x") == [
        "SKIP plot: there is nothing to draw"
    ]
    assert not list(tmp_path.iterdir())


def test_the_slowest_rank_counts():
    case = {"tokens": 8, "hidden": 64}
    rounds = {"fused one-shot": [[1.0, 1.0], [1.0, 1.0]], "nccl": [[5.0, 5.0], [5.0, 5.0]]}
    slow = rounds | {"fused one-shot": [[2.0, 2.0], [2.0, 2.0]]}

    point = make_point(2, case, [{"rounds": rounds}, {"rounds": slow}])

    assert point is not None
    assert point.ratio == pytest.approx(0.4)


def test_what_only_some_ranks_could_time_is_no_timing():
    case = {"tokens": 8, "hidden": 64}
    rounds = {"fused one-shot": [[1.0, 1.0], [1.0, 1.0]], "nccl": [[5.0, 5.0], [5.0, 5.0]]}

    point = make_point(2, case, [{"rounds": rounds | {"symmetric one-shot": [[2.0, 2.0]]}}, {"rounds": rounds}])

    assert point is not None
    assert set(point.others) == {"nccl"}


def test_without_anything_to_compare_with_there_is_no_point():
    assert (
        make_point(2, {"tokens": 8, "hidden": 64}, [{"rounds": {"fused one-shot": [[1.0, 1.0], [1.0, 1.0]]}}]) is None
    )


def test_the_bench_times_every_shape():
    plan = load_plan(RECIPE)

    assert len(bench_cases(setting())) == len(plan.bench.tokens) * len(plan.bench.hidden)


def test_kept_records_are_listed_with_their_state(tmp_path):
    recipe = replace(setting().recipe, file=tmp_path / "recipe.toml")
    folder = tmp_path / "evidence"
    folder.mkdir()
    document = smoke_document(setting(), complete(), date=DATE, kind="smoke")
    (folder / "smoke.json").write_text(json.dumps(document))
    (folder / "other.json").write_text("[]")

    (item,) = evidence(recipe)

    assert (item.file.name, item.state, item.verdict) == ("smoke.json", "stale", "PASS")
    assert "SM120 was not run" in item.statement
