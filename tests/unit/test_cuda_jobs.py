from __future__ import annotations

import os
from pathlib import Path

import pytest

from forkwheel.cuda.jobs import free_memory, jobs_allowed
from forkwheel.errors import UsageError

CORES = len(os.sched_getaffinity(0))


def test_cores_are_the_limit_where_nothing_else_is() -> None:
    assert jobs_allowed({}, memory=1, free=None).count == CORES
    assert jobs_allowed({"MAX_JOBS": ""}, memory=1, free=1 << 20).limit == "the cores"


def test_max_jobs_is_honoured() -> None:
    jobs = jobs_allowed({"MAX_JOBS": "7"}, memory=1000, free=1 << 20)

    assert (jobs.count, jobs.limit) == (7, "MAX_JOBS")


@pytest.mark.parametrize("environment", [{}, {"MAX_JOBS": "7"}])
def test_memory_limits_both(environment: dict[str, str]) -> None:
    jobs = jobs_allowed(environment, memory=1000, free=999)

    assert jobs.count == 1
    assert "999 MiB are free" in jobs.limit


@pytest.mark.parametrize("named", ["many", "0", "-1", "2.5", "٣"])
def test_max_jobs_that_is_no_number_is_refused(named: str) -> None:
    with pytest.raises(UsageError, match=f"MAX_JOBS is '{named}'"):
        jobs_allowed({"MAX_JOBS": named}, memory=1, free=None)


MIB = 1 << 20


def machine(root: Path, *, available: int, groups: str, files: dict[str, str]) -> Path:
    files = {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {available * 1024} kB\n", **files}
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group(folder: str, *, most: str, used: int, cached: int) -> dict[str, str]:
    return {
        f"sys/fs/cgroup/{folder}/memory.max": f"{most}\n",
        f"sys/fs/cgroup/{folder}/memory.current": f"{used * MIB}\n",
        f"sys/fs/cgroup/{folder}/memory.stat": f"anon 1\nactive_file {cached * MIB}\ninactive_file 0\n",
    }


def test_the_memory_of_the_machine_counts(tmp_path: Path) -> None:
    assert free_memory(machine(tmp_path, available=900, groups="0::/\n", files={})) == 900
    assert free_memory(tmp_path / "nowhere") is None


def test_the_group_around_ours_counts_without_its_cached_files(tmp_path: Path) -> None:
    files = {
        **group("user", most=str(1000 * MIB), used=800, cached=500),
        **group("user/job", most="max", used=800, cached=500),
    }

    assert free_memory(machine(tmp_path, available=9000, groups="0::/user/job\n", files=files)) == 700


def test_a_container_sees_its_own_group_at_the_top(tmp_path: Path) -> None:
    files = group("", most=str(1000 * MIB), used=1200, cached=0)

    assert free_memory(machine(tmp_path, available=9000, groups="0::/elsewhere\n", files=files)) == 0


def test_groups_of_version_1_count_too(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{2000 * MIB}\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{1500 * MIB}\n",
        "sys/fs/cgroup/memory/job/memory.stat": f"total_active_file {100 * MIB}\ntotal_inactive_file {100 * MIB}\n",
    }
    groups = "5:devices:/\n4:memory:/job\n0::/\n"

    assert free_memory(machine(tmp_path, available=9000, groups=groups, files=files)) == 700
