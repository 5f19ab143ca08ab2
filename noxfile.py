"""What a person runs: ``python3 noxfile.py -s SESSION``, or ``nox -s SESSION`` where nox is installed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts"))

import bootstrap  # noqa: E402

try:
    import nox
except ModuleNotFoundError:
    bootstrap.run_nox(ROOT, sys.argv[1:])

nox.needs_version = ">=2025.2.9"
nox.options.sessions = []
nox.options.default_venv_backend = "virtualenv"


def _forkwheel(session: nox.Session, *arguments: str) -> None:
    """Run a forkwheel command and keep its exit code, which nox would turn into 1."""
    given = bootstrap.resolved(session.posargs, Path(session.invoked_from))
    program = str(bootstrap.environment(ROOT, given) / "bin" / "forkwheel")
    code = subprocess.run([program, *arguments, *given], check=False).returncode
    if code:
        raise SystemExit(code)


def _session(name: str):
    """Declare a session that runs in the checkout's own environment, which is made once."""
    return nox.session(name=name, python=False)


def _groups(session: nox.Session, *names: str) -> None:
    session.install("--editable", ".", *nox.project.dependency_groups(nox.project.load_toml(), *names))


@_session("build")
def build(session: nox.Session) -> None:
    """Build any recipe: -- --recipe NAME-or-path."""
    _forkwheel(session, "build")


@_session("build-sm120")
def build_sm120(session: nox.Session) -> None:
    """Build SGLang and FlashInfer wheels for SM120 GPUs into dist/."""
    _forkwheel(session, "build", "--recipe", "sm120")


@_session("build-sm120-current")
def build_sm120_current(session: nox.Session) -> None:
    """Patch today's SGLang wheels for SM120 GPUs, with the FlashInfer that they require."""
    _forkwheel(session, "build", "--recipe", "sm120-current")


@_session("lock")
def lock(session: nox.Session) -> None:
    """Record what a recipe builds in its lock: -- --recipe NAME."""
    _forkwheel(session, "lock")


@_session("patches")
def patches(session: nox.Session) -> None:
    """Show, check or edit a patch series: -- --recipe NAME [--edit PATCH | --refresh | --close | --new …]."""
    _forkwheel(session, "patches")


@_session("show")
def show(session: nox.Session) -> None:
    """Show what a wheel says of its own making: -- WHEEL."""
    _forkwheel(session, "show")


@_session("upstream")
def upstream(session: nox.Session) -> None:
    """Judge a patch series against other upstream versions: -- --recipe NAME --package PACKAGE --to VERSION."""
    _forkwheel(session, "upstream")


@_session("port")
def port(session: nox.Session) -> None:
    """Move a recipe to other upstream versions: -- --recipe NAME --to PACKAGE=VERSION."""
    _forkwheel(session, "port")


@_session("publish")
def publish(session: nox.Session) -> None:
    """Put the wheels of dist/ on an index: -- --to DIR, or --repository NAME-or-URL."""
    _forkwheel(session, "publish")


@_session("reproduce")
def reproduce(session: nox.Session) -> None:
    """Build a wheel or a whole set again and compare every byte: -- WHEEL-or-manifest-or-index-URL."""
    _forkwheel(session, "reproduce")


@_session("fetch")
def fetch(session: nox.Session) -> None:
    """Fetch all that a build needs, with --bundle DIR for a machine without a network: -- --recipe NAME."""
    _forkwheel(session, "fetch")


@_session("report")
def report(session: nox.Session) -> None:
    """Write one page about the wheels of dist/ for the person who approves them."""
    _forkwheel(session, "report")


@_session("doctor")
def doctor(session: nox.Session) -> None:
    """Check what a build, a GPU run and an install need on this machine."""
    _forkwheel(session, "doctor")


@_session("clear-jit-cache")
def clear_jit_cache(session: nox.Session) -> None:
    """Remove what the fork compiled on first use: [-- --all] [--dry-run] [--python PATH]."""
    _forkwheel(session, "clear-jit-cache")


@_session("kernels-sm120")
def kernels_sm120(session: nox.Session) -> None:
    """Compile the all-reduce module for SM120, without a GPU, into a wheel; needs g++."""
    _forkwheel(session, "kernels", "--recipe", "sm120")


@_session("audit")
def audit(session: nox.Session) -> None:
    """Find the conditions that keep a GPU out, before and after the patches: -- --recipe NAME."""
    _forkwheel(session, "audit")


@_session("gpu-smoke")
def gpu_smoke(session: nox.Session) -> None:
    """Compile, load, run and check the all-reduce kernels on this machine's GPUs."""
    _forkwheel(session, "smoke", "--recipe", "sm120")


@_session("gpu-bench")
def gpu_bench(session: nox.Session) -> None:
    """Measure on this machine's GPUs whether the fusion is worth enabling."""
    _forkwheel(session, "bench", "--recipe", "sm120")


@_session("bench-pipeline")
def bench_pipeline(session: nox.Session) -> None:
    """Compare the pipeline's speed with the hand-made way, as ratios."""
    python = bootstrap.environment(ROOT) / "bin" / "python"
    session.run(str(python), "tests/bench_pipeline.py", *session.posargs, external=True)


@nox.session(name="tests", reuse_venv=True)
def tests(session: nox.Session) -> None:
    """Run the tests: -- tests/unit for those that need no network."""
    _groups(session, "test")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(name="lint", reuse_venv=True)
def lint(session: nox.Session) -> None:
    """Check style and types."""
    _groups(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


if __name__ == "__main__":
    nox.main()
