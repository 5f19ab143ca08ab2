"""Have the C++ and CUDA files of some trees looked at by a process of its own."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from forkwheel.errors import VerificationError
from forkwheel.gates.codec import findings_from_json
from forkwheel.gates.cuda_gates import CudaFindings
from forkwheel.gates.files import SourceFile
from forkwheel.gates.kept import Slot
from forkwheel.gates.model import Question
from forkwheel.store import Store


class CudaSearch:
    """A search in several states of some trees, which goes on while the caller does something else."""

    def __init__(
        self, states: Sequence[Sequence[SourceFile]], question: Question, *, store: Store | None = None
    ) -> None:
        """Take what is known from the cache; states whose C++ and CUDA files are equal count once."""
        self._question = question
        self._states = [[file for file in files if not file.is_python] for files in states]
        asked = (question.target, question.references)
        self._slots = [Slot.of(store, files, asked) for files in self._states]
        self._known = [slot.read() for slot in self._slots]
        self._worker: subprocess.Popen[str] | None = None

    def __enter__(self) -> CudaSearch:
        """Start a process, where there is anything to be looked at."""
        missing = [files for files, known in zip(self._states, self._known, strict=True) if known is None]
        if any(missing):
            command = [sys.executable, "-m", "forkwheel.gates.cuda_worker"]
            self._worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self._worker.stdin is not None
            with self._worker.stdin as pipe:
                json.dump(_request(missing, self._question), pipe)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave no process behind."""
        if self._worker is not None and self._worker.poll() is None:
            self._worker.kill()
            self._worker.wait()

    def answers(self) -> list[CudaFindings]:
        """Wait for what was found in each state."""
        fresh = iter(self._answer())
        for number, slot in enumerate(self._slots):
            if self._known[number] is None:
                self._known[number] = next(fresh)
                slot.write(self._known[number] or {})
        return [findings_from_json(known) for known in self._known if known is not None]

    def _answer(self) -> list[dict[str, Any]]:
        if self._worker is None:
            return [{"gates": [], "failures": [], "exports": []} for known in self._known if known is None]
        assert self._worker.stdout is not None
        with self._worker.stdout:
            text = self._worker.stdout.read()
        if self._worker.wait():
            raise VerificationError(
                "the C++ part of the gate audit failed", hint="its traceback is above; please report it"
            )
        answer: list[dict[str, Any]] = json.loads(text)
        return answer


def _request(states: list[list[SourceFile]], question: Question) -> dict[str, Any]:
    """Write the files once, and the states as lists of their numbers."""
    numbers: dict[SourceFile, int] = {}
    listed = [[numbers.setdefault(file, len(numbers)) for file in files] for files in states]
    files = [
        [
            f.root,
            f.path,
            f.digest,
            str(f.file.absolute()),
            None if f.content is None else base64.b64encode(f.content).decode(),
        ]
        for f in numbers
    ]
    question_text = {"target": str(question.target), "references": [str(arch) for arch in question.references]}
    return {**question_text, "files": files, "states": listed}
