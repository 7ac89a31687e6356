"""Programs that take turns on one GPU: a training step each, driven over standard input, with one line of JSON per answer."""

import json
import pathlib
import queue
import statistics
import subprocess
import sys
import threading

from .machine import ROOT
from .stage import end

sys.path.insert(0, str(ROOT / "bench"))
from gpu_workloads import WORKLOADS  # noqa: E402

BLOCK_SECONDS = 1.5
CACHE = ROOT / ".deps/pytorch-cache"  # what torch.compile made in an earlier visit


class Gone(Exception):
    """The worker has ended, or did not answer in time."""


class Worker:
    """Starts at once and loads on its own; the first answer is asked for when its turn comes."""

    def __init__(self, stage, name, command, environment=None, folder=None):
        self.stage, self.name, self.steps, self.ready = stage, name, 0, None
        self.log = open(stage.logs / f"worker-{name.replace(' ', '-')}.log", "w", encoding="utf-8")
        self.process = stage.started(command, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                     text=True, cwd=folder)
        self.answers = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.answers.put(json.loads(line))
        self.answers.put(None)

    def answer(self, seconds):
        try:
            found = self.answers.get(timeout=max(0.1, min(seconds, self.stage.left())))
        except queue.Empty:
            raise Gone(f"{self.name} did not answer in time") from None
        if found is None:
            raise Gone(f"{self.name} ended: {self.last_words()}")
        return found

    def last_words(self):
        self.log.flush()
        text = pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace").strip()
        return text.splitlines()[-1][:300] if text else "without a word"

    def load(self, seconds=60.0):
        if self.ready is None:
            self.ready = self.answer(seconds)
        return self.ready

    def ask(self, line, seconds=120.0):
        self.load()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise Gone(f"{self.name} ended: {self.last_words()}") from None
        return self.answer(seconds)

    def warm_up(self, steps, block_seconds=BLOCK_SECONDS):
        """Runs so many steps, then finds how many make a block."""
        if self.steps:
            return
        self.ask(f"compute {steps}")
        few = max(1, steps // 3)
        seconds = self.ask(f"compute {few}")["seconds"]
        self.steps = max(1, round(few * block_seconds / max(seconds, 1e-6)))

    def rate(self):
        """Items a second of a block."""
        answer = self.ask(f"compute {self.steps}")
        return answer["items"] / answer["seconds"]

    def close(self):
        """A program that is asked to end writes what it keeps."""
        try:
            self.process.stdin.close()
            self.process.wait(10.0)
        except (OSError, subprocess.TimeoutExpired):
            pass
        end(self.process)
        self.stage.running.discard(self.process)
        self.reader.join(2.0)
        self.process.stdout.close()
        self.log.close()


def tandem_command(machine, workload, precision, *more):
    config = WORKLOADS[workload].tiny if machine.emulated else WORKLOADS[workload].config
    return [machine.tandem, "bench", *config, "device=cuda", f"precision={precision}", *more]


def tandem(stage, workload, precision, table, label="", environment=None):
    """Tandem's side. `table`: the worker's own file of algorithms."""
    more = ["--serve", "--warmup", "0", "--algorithms", table]
    return Worker(stage, f"tandem {workload} {precision}{label}",
                  tandem_command(stage.machine, workload, precision, *more), environment)


def pytorch(stage, workload, precision, mode):
    machine = stage.machine
    command = [machine.python, ROOT / "bench/pytorch_gpu_worker.py", workload, precision, mode,
               *(["cpu", "tiny"] if machine.emulated else ["cuda"])]
    cached = {"TANDEM_TORCH_CACHE": str(CACHE)} if CACHE.exists() else {}
    return Worker(stage, f"pytorch {workload} {precision} {mode}", command, {**machine.foreign, **cached}, ROOT / "bench")


def quartiles(values):
    if len(values) == 1:
        return [values[0]] * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def compare(stage, ours, other, pairs, least_seconds):
    """Blocks in turns A B B A: ratios ours/other of neighbours and both rates. What was measured before the stage's end counts."""
    ratios, rates = [], ([], [])
    for pair in range(pairs):
        if ratios and not stage.fits(least_seconds):
            break
        measured = {}
        for worker in (ours, other) if pair % 2 == 0 else (other, ours):
            measured[worker] = worker.rate()
        ratios.append(measured[ours] / measured[other])
        rates[0].append(measured[ours])
        rates[1].append(measured[other])
    q1, ratio, q3 = quartiles(ratios)
    return {"ratio": ratio, "q1": q1, "q3": q3, "pairs": len(ratios), "rate": statistics.median(rates[0]),
            "other_rate": statistics.median(rates[1])}
