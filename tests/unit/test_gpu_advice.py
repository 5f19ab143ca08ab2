import pytest

from forkwheel.gpu.advice import Point, advise, crossover, one_line
from forkwheel.gpu.statistics import Timing, slowest, timing

TEXTS = {"on": "set the flag", "limited": "set the limit to {tokens}", "off": "no flag, at most {below}"}


def exact(median, noise=0.0):
    return Timing(median, median * (1 - noise), median * (1 + noise), 0.0)


def points(pairs, *, world_size=2, hidden=4096, noise=0.0):
    return [
        Point(world_size, hidden, tokens, {"one-shot": exact(fused, noise), "two-shot": exact(fused * 2)},
              {"nccl": exact(other, noise)})
        for tokens, fused, other in pairs
    ]  # fmt: skip


def test_a_timing_has_its_median_quartiles_and_drift():
    found = timing([[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]])

    assert found.median == 16.0
    assert (found.low, found.high) == (11.25, 20.75)
    assert found.drift == pytest.approx(10 / 16)
    assert found.noise == pytest.approx(10 / 16)


def test_a_collective_takes_as_long_as_its_slowest_rank():
    assert slowest([exact(3.0), exact(7.0), exact(5.0)]).median == 7.0


def advised(found):
    tokens, hidden = {point.tokens for point in found}, {point.hidden for point in found}
    return advise(found, tokens=sorted(tokens), hidden=sorted(hidden))


def test_fusion_that_wins_everywhere_is_on():
    found = advised(points([(1, 4.0, 13.0), (16, 5.0, 14.0), (2048, 87.0, 105.0)]))

    assert [(item.kind, item.tokens) for item in found] == [("on", 2048)]
    assert one_line(found, TEXTS) == "2 ranks: fusion wins at every size timed (up to 2048 tokens): set the flag"


def test_the_limit_is_the_last_token_count_before_the_first_loss():
    found = advised(points([(1, 4.0, 13.0), (16, 5.0, 14.0), (256, 50.0, 40.0), (2048, 80.0, 105.0)]))

    assert [(item.kind, item.tokens) for item in found] == [("limited", 16)]
    assert "up to 16 tokens: set the limit to 16" in one_line(found, TEXTS)


def test_the_smallest_limit_of_all_hidden_sizes_holds():
    wide = points([(1, 4.0, 13.0), (16, 15.0, 14.0)], hidden=7168)

    assert advised([*points([(1, 4.0, 13.0), (16, 5.0, 14.0)]), *wide])[0].tokens == 1


def test_nothing_is_claimed_beyond_a_size_that_could_not_be_timed():
    known = points([(1, 4.0, 13.0), (2048, 80.0, 105.0)])

    (found,) = advise(known, tokens=[1, 16, 2048], hidden=[4096])

    assert (found.kind, found.tokens) == ("limited", 1)


def test_fusion_that_loses_at_once_stays_off_at_that_world_size():
    found = advised([*points([(1, 4.0, 13.0)]), *points([(1, 30.0, 13.0)], world_size=4)])

    line = one_line(found, TEXTS)
    assert [item.kind for item in found] == ["on", "off"]
    assert "4 ranks: fusion does not win at the fewest tokens: no flag, at most 2" in line
    assert "\n" not in line


def test_a_lead_within_the_noise_is_no_win():
    clear, noisy = points([(1, 90.0, 100.0)]), points([(1, 90.0, 100.0)], noise=0.04)

    assert clear[0].wins
    assert not noisy[0].wins


def test_a_lead_below_the_margin_is_no_win():
    assert not points([(1, 96.0, 100.0)])[0].wins


def test_the_best_shot_and_the_best_other_are_compared():
    one = Point(2, 64, 8, {"one-shot": exact(9.0), "two-shot": exact(4.0)}, {"nccl": exact(10.0), "x": exact(8.0)})

    assert (one.shot, one.ratio) == ("two-shot", 0.5)


def test_the_crossover_lies_between_the_last_win_and_the_first_loss():
    found = crossover(points([(512, 50.0, 100.0), (2048, 200.0, 100.0)]))

    assert found == pytest.approx(1024)


def test_without_a_loss_there_is_no_crossover():
    assert crossover(points([(1, 4.0, 13.0), (2, 4.0, 13.0)])) is None
