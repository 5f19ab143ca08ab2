import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from support import is_running

from forkwheel.errors import UsageError
from forkwheel.gpu.job import ERROR, HANG, PASSED, Job, Limits
from forkwheel.gpu.rank_group import RankGroup
from forkwheel.gpu.ranks import choose_worlds, devices_for, run_ranks

WORKER = """
    import os, signal, sys, time

    class Worker:
        def __init__(self, rank):
            self.rank = rank

        def run(self, case):
            print("running", case)
            what = case.get("what") if case.get("on", self.rank.rank) == self.rank.rank else None
            if case.get("after_peer"):
                self.meet()
            if what == "raise":
                raise RuntimeError("an illegal memory access was encountered")
            if what == "die":
                os.kill(os.getpid(), signal.SIGSEGV)
            if what == "exit":
                os._exit(0)
            if what == "sleep":
                waiting_for_the_peer()
            return {"rank": self.rank.rank, "device": self.rank.device, "pid": os.getpid(), **self.rank.settings}

        def meet(self):
            # The second rank goes on only when the first has reported the case before this one.
            begun = self.rank.meeting.with_name("first-rank-has-begun")
            if self.rank.rank == 0:
                begun.touch()
            while not begun.exists():
                time.sleep(0.001)

        def close(self):
            pass

    def waiting_for_the_peer():
        time.sleep(600)

    def start(rank):
        if rank.settings.get("broken"):
            raise ImportError("no such module")
        return Worker(rank)
"""


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    file = tmp_path / "worker.py"
    file.write_text(textwrap.dedent(WORKER))
    return file


def make_job(worker: Path, cases, *, settings=None, interfere=None, case_limit=5.0) -> Job:
    return Job(
        python=Path(sys.executable),
        worker=worker,
        devices=(0, 1),
        settings=settings or {},
        cases=tuple(cases),
        environment={},
        limits=Limits(start=30.0, case=case_limit),
        interfere=interfere,
    )


def test_every_rank_reports_every_case_with_its_own_device(worker, tmp_path):
    outcomes = list(run_ranks(make_job(worker, [{}, {}], settings={"colour": "red"}), tmp_path / "run"))

    assert [(outcome.case, outcome.status) for outcome in outcomes] == [(0, PASSED), (1, PASSED)]
    assert [result["device"] for result in outcomes[0].results] == [0, 1]
    assert outcomes[1].results[1]["colour"] == "red"


@pytest.mark.parametrize(
    ("what", "error"),
    [("raise", "illegal memory access"), ("die", "signal SIGSEGV"), ("exit", "exit code 0")],
)
def test_a_rank_that_breaks_is_one_failure_and_the_rest_runs_in_new_processes(worker, tmp_path, what, error):
    cases = [{}, {"what": what, "on": 1, "after_peer": True}, {}]

    outcomes = list(run_ranks(make_job(worker, cases), tmp_path / "run"))

    assert [(outcome.case, outcome.status) for outcome in outcomes] == [(0, PASSED), (1, ERROR), (2, PASSED)]
    assert error in outcomes[1].error
    assert "rank 1" in outcomes[1].error
    assert "running" in outcomes[1].log
    assert outcomes[0].results[0]["pid"] != outcomes[2].results[0]["pid"]


def test_the_failure_is_laid_to_the_case_of_the_rank_that_failed(worker, tmp_path):
    """Rank 0 may be a case ahead of rank 1: the slower one's case is run again, and not blamed."""
    cases = [{"what": "sleep", "on": 1}, {"what": "raise", "on": 0}]

    outcomes = list(run_ranks(make_job(worker, cases, case_limit=2.0), tmp_path / "run"))

    assert [(outcome.case, outcome.status) for outcome in outcomes] == [(1, ERROR), (0, HANG)]


def test_what_was_reported_before_a_failure_is_taken_in_first(worker, tmp_path, monkeypatch):
    """The two pipes are read one after the other: the first rank's report may come between."""
    read = RankGroup.read

    def second_rank_only(group: RankGroup, seconds: float) -> bool:
        if not seconds or group.failure():
            return read(group, seconds)
        pipes = dict(group._pipes)
        group._pipes.pop(0, None)
        heard = read(group, seconds)
        group._pipes |= {rank: pipe for rank, pipe in pipes.items() if rank == 0}
        return heard

    monkeypatch.setattr(RankGroup, "read", second_rank_only)
    cases = [{}, {"what": "raise", "on": 1, "after_peer": True}]

    outcomes = list(run_ranks(make_job(worker, cases), tmp_path / "run"))

    assert [(outcome.case, outcome.status) for outcome in outcomes] == [(0, PASSED), (1, ERROR)]


def test_a_hang_ends_within_its_limit_with_each_stack_and_the_last_finished_case(worker, tmp_path):
    cases = [{}, {"what": "sleep", "on": 1}]

    outcome = list(run_ranks(make_job(worker, cases, case_limit=1.0), tmp_path / "run"))[1]

    assert (outcome.case, outcome.status) == (1, HANG)
    assert "waiting_for_the_peer" in outcome.stacks[1]
    assert outcome.last == (1, 0)


def test_a_stopped_rank_ends_as_a_hang_that_names_it_and_has_both_stacks(worker, tmp_path):
    def stop_the_second(group: RankGroup) -> None:
        if group.last()[1] == 0:
            os.kill(group.pid(1), signal.SIGSTOP)

    job = make_job(worker, [{}, {"what": "sleep"}], interfere=stop_the_second, case_limit=1.0)
    outcome = list(run_ranks(job, tmp_path / "run"))[1]

    assert outcome.status == HANG
    assert "rank 1 is stopped" in outcome.error
    assert "waiting_for_the_peer" in outcome.stacks[0]
    assert "rank_main.py" in outcome.stacks[1]  # stopped somewhere on its way to the second case


def test_only_the_groups_own_processes_are_ended(worker, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as bystander:
        list(run_ranks(make_job(worker, [{"what": "sleep"}], case_limit=0.5), tmp_path / "run"))
        alive = bystander.poll() is None
        bystander.kill()

    assert alive


def test_no_process_of_a_hung_group_is_left(worker, tmp_path):
    pids = []

    def note(group: RankGroup) -> None:
        pids[:] = [group.pid(0), group.pid(1)]

    list(run_ranks(make_job(worker, [{"what": "sleep"}], interfere=note, case_limit=0.5), tmp_path / "run"))

    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_ranks_that_cannot_start_are_one_failure_and_nothing_is_run(worker, tmp_path):
    outcomes = list(run_ranks(make_job(worker, [{}, {}], settings={"broken": True}), tmp_path / "run"))

    assert [(outcome.case, outcome.status) for outcome in outcomes] == [(-1, ERROR)]
    assert "no such module" in outcomes[0].error


def test_after_some_broken_groups_the_rest_is_left_unrun(worker, tmp_path):
    cases = [{"what": "raise"}] * 4

    outcomes = list(run_ranks(make_job(worker, cases), tmp_path / "run", most_broken=2))

    assert [(outcome.case, outcome.status) for outcome in outcomes] == [(0, ERROR), (1, ERROR)]


def test_ranks_that_were_started_are_ended_where_another_cannot_be(worker, tmp_path, monkeypatch):
    started = []
    popen = subprocess.Popen

    def only_one(*arguments, **options):
        if started:
            raise OSError("no more processes")
        started.append(popen(*arguments, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", only_one)

    with pytest.raises(OSError, match="no more processes"):
        RankGroup(make_job(worker, [{"what": "sleep"}]), [(0, {"what": "sleep"})], tmp_path / "run")

    assert started[0].poll() == -signal.SIGKILL


def test_leaving_in_the_middle_ends_the_ranks(worker, tmp_path):
    pids = []

    def note(group: RankGroup) -> None:
        pids[:] = [group.pid(0), group.pid(1)]

    outcomes = run_ranks(make_job(worker, [{}, {"what": "sleep"}], interfere=note), tmp_path / "run")
    next(outcomes)
    outcomes.close()

    assert pids
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.parametrize(
    ("gpus", "asked", "each", "expected"),
    [
        (1, [], None, {2: (0, 0)}),
        (2, [], None, {2: (0, 1)}),
        (4, [], None, {2: (0, 1), 4: (0, 1, 2, 3)}),
        (2, [4], 2, {4: (0, 1, 0, 1)}),
    ],
)
def test_worlds_follow_the_gpus(gpus, asked, each, expected):
    assert choose_worlds(asked, supported=[2, 4, 8], gpus=gpus, ranks_per_gpu=each) == expected


def test_a_world_size_without_kernels_is_refused_before_launch():
    with pytest.raises(UsageError, match="world size 3"):
        choose_worlds([3], supported=[2, 4, 8], gpus=8, ranks_per_gpu=None)


def test_more_ranks_than_fit_are_refused():
    with pytest.raises(UsageError, match="4 ranks do not fit on 2 GPUs"):
        devices_for(4, gpus=2, ranks_per_gpu=1)


def test_ranks_end_with_the_process_that_watches_them(worker, tmp_path):
    program = f"""
import sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
from forkwheel.gpu.job import Job, Limits
from forkwheel.gpu.rank_group import RankGroup
job = Job(Path(sys.executable), Path({str(worker)!r}), (0,), {{}}, (), {{}}, Limits())
group = RankGroup(job, [(0, {{"what": "sleep"}})], Path({str(tmp_path / "run")!r}))
while not group.begun(0):
    group.read(0.1)
print(group.pid(0), flush=True)
os = __import__("os")
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    pid = int(done.stdout)
    until = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert done.returncode == -signal.SIGKILL
    assert not is_running(pid)
