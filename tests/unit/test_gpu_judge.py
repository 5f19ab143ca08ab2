import json
import math

import pytest

from forkwheel.gpu.checks import FAIL, PASS, SKIP
from forkwheel.gpu.job import ERROR, HANG, PASSED, Outcome
from forkwheel.gpu.judge import Judged, judge, summarise

CASE = {
    "operation": "op",
    "pattern": "norm",
    "dtype": "bfloat16",
    "tokens": 8,
    "hidden": 64,
    "outputs": ["norm"],
    "seed": 1,
}


def result(error=1e-3, *, row=1e-3, unwritten=0, missing=(), digest="a", output="norm"):
    return {
        "kernels": ["void ns::kernel<1, 2>(int)"],
        "missing": list(missing),
        "figures": {output: {"error": error, "row": row, "unwritten": unwritten}},
        "digest": digest,
        "seconds": 0.1,
    }


def judged(*results, case=CASE):
    return judge([case], Outcome(0, PASSED, results=results))


def test_a_case_within_its_bounds_on_all_ranks_passes_with_its_worst_error():
    found = judged(result(1e-3), result(2e-3))

    assert (found.status, found.errors) == (PASS, {"norm": 2e-3})


def test_an_error_beyond_the_bound_on_one_rank_fails_with_both_numbers():
    found = judged(result(), result(0.5))

    assert found.status == FAIL
    assert "rank 1: norm is off by 5.00e-01 (bound 0.012)" in found.reason


def test_one_bad_row_fails():
    assert judged(result(1e-3, row=0.5)).status == FAIL


def test_values_that_were_never_written_fail():
    found = judged(result(math.nan, row=math.nan, unwritten=7))

    assert found.status == FAIL
    assert "7 values of norm are NaN: never written" in found.reason


def test_a_nan_error_without_a_count_fails():
    assert judged(result(math.nan)).status == FAIL


def test_a_kernel_that_did_not_run_fails_although_the_result_is_right():
    found = judged(result(missing=["fused_kernel"]))

    assert found.status == FAIL
    assert "kernel fused_kernel did not run (these ran: void ns::kernel" in found.reason


def test_results_that_differ_between_ranks_fail():
    assert "not equal bit for bit" in judged(result(digest="a"), result(digest="b")).reason


def test_fp8_has_a_bound_of_its_own():
    assert judged(result(0.03, row=0.03, output="fp8")).status == PASS
    assert judged(result(0.03, row=0.03)).status == FAIL


def test_a_skip_is_not_a_pass():
    found = judged({"skip": "needs SM100"})

    assert (found.status, found.reason) == (SKIP, "needs SM100")


def test_a_dead_rank_is_a_failure_with_its_error():
    found = judge([CASE], Outcome(0, ERROR, error="rank 0: an illegal memory access"))

    assert (found.status, found.reason) == (FAIL, "error: rank 0: an illegal memory access")


def test_a_hang_shows_stacks_and_the_last_finished_cases():
    outcome = Outcome(1, HANG, error="no report", stacks=("File a", ""), last=(0, None))

    reason = judge([CASE, CASE | {"tokens": 16}], outcome).reason

    assert reason.startswith("hang: no report; rank 0 finished last: op norm bfloat16 [8, 64]; ")
    assert "rank 1 finished last: nothing" in reason
    assert "stack of rank 0:\nFile a" in reason
    assert "stack of rank 1:\n(none: " in reason


@pytest.mark.parametrize("order", [1, -1])
def test_an_error_that_is_no_number_is_not_lost_among_good_ones(order):
    (check,) = summarise_one(*[result(math.nan, unwritten=3), result(1e-3)][::order])

    assert check.figures["worst"] == {"norm": None}
    assert "worst error norm none" in check.detail


def summarise_one(*results):
    return summarise([judged(*results)], world_size=2)[:1]


def test_the_figures_are_json_even_where_nothing_was_written():
    checks = summarise([judged(result(math.nan, unwritten=3)), judged(result(math.inf))], world_size=2)

    json.dumps([check.document() for check in checks], allow_nan=False)


def test_ranks_that_never_started_are_one_failure_without_figures():
    lost = Judged({"operation": "op", "pattern": "ranks", "dtype": "start", "tokens": 0, "hidden": 0}, "FAIL", "x", {})

    assert summarise([lost], world_size=2)[0].detail == "1 failed of 1 shapes"


def test_shapes_of_one_kind_are_one_check_with_all_their_errors():
    items = [judged(result(error), case=CASE | {"tokens": tokens}) for tokens, error in ((1, 1e-3), (8, 2e-3))]

    (check,) = summarise(items, world_size=2)

    assert (check.name, check.status) == ("op norm bfloat16, 2 ranks", PASS)
    assert check.figures["errors"] == {"norm": {"64": {"1": 0.001, "8": 0.002}}}
    assert check.figures["kernels"] == ["ns::kernel"]


def test_each_failed_shape_is_named():
    items = [judged(result()), judged(result(0.5), case=CASE | {"tokens": 2048})]

    checks = summarise(items, world_size=2)

    assert [check.status for check in checks] == [FAIL, FAIL]
    assert checks[1].name == "op norm bfloat16 [2048, 64]"


def test_a_kind_of_which_nothing_ran_is_a_skip():
    (check,) = summarise([judged({"skip": "needs SM100"})], world_size=2)

    assert (check.status, check.detail) == (SKIP, "needs SM100")
