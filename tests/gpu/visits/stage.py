"""A stage of a visit: its deadline, its lines of results, which are appended at once, and its returned files."""

import collections
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

MOST_FILES, MOST_BYTES = 6, 16 << 20  # that come back
CLOSING_SECONDS = 5.0  # for logs and the table


class Clocks:
    """The GPU's clocks, once a second: "SM MHz, memory MHz, °C, W, reasons to throttle"; None where nvidia-smi says nothing."""

    FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"

    def __init__(self):
        self.latest = None
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", f"--query-gpu={self.FIELDS}", "--format=csv,noheader,nounits", "-i", "0", "-lms", "1000"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None
            return
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.latest = line.strip()

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()


class Job:
    """A program that a stage runs. `estimate` seconds are what it is expected to take, `limit` what it gets at most."""

    def __init__(self, name, command, estimate, limit=None, environment=None):
        self.name, self.command, self.estimate = name, [str(word) for word in command], estimate
        self.limit, self.environment = limit or 3 * estimate, environment or {}


class Stage:
    def __init__(self, name, machine, seconds, out, start=None):
        self.name, self.machine, self.out = name, machine, out
        self.start, self.seconds = start or time.monotonic(), seconds
        out.mkdir(parents=True, exist_ok=True)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix=f"visit-{name}-"))
        self.logs = self.work / "logs"
        self.logs.mkdir()
        self.rows = []
        self.lines = open(out / f"{name}.jsonl", "a", encoding="utf-8")
        self.clocks = Clocks()
        self.kept = []
        self.lock = threading.Lock()
        self.running, self.finished, self.ended = set(), [], False
        self.date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is measured is kept, see `closed`
        self.record("stage", seconds=seconds, processors=os.cpu_count())

    # ---- time

    def left(self):
        """Seconds until nothing may run any more."""
        return self.start + self.seconds - CLOSING_SECONDS - time.monotonic()

    def fits(self, estimate):
        return estimate <= self.left()

    # ---- results

    def record(self, kind, **fields):
        """Appends a line, which is on the disk when this returns."""
        row = {"stage": self.name, "kind": kind, **fields, "at": round(time.monotonic() - self.start, 2), "date": self.date,
               **self.machine.about, "clocks": self.clocks.latest}
        with self.lock:
            self.rows.append(row)
            self.lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            self.lines.flush()
            os.fsync(self.lines.fileno())

    def say(self, text):
        """A remark that the results should carry, too."""
        print(f"{self.name}: {text}", flush=True)
        self.record("remark", text=text)

    def not_reached(self, name, estimate):
        self.record("case", name=name, outcome="not reached", estimate=estimate)

    def keep(self, path):
        """This file comes back as well, if there is room."""
        if path.exists() and path.stat().st_size:
            self.kept.append(path)

    def own_table(self, name):
        """A program's own copy of the card's table of algorithms, to which it adds: several write theirs at once."""
        path = self.work / f"algorithms-{name}.txt"
        table, _ = self.machine.table()
        if table:
            shutil.copyfile(table, path)
        return path

    # ---- programs

    def started(self, command, environment=None, stdin=subprocess.DEVNULL, **streams):
        """A program in a session of its own, which ends with the stage."""
        process = subprocess.Popen([str(word) for word in command], stdin=stdin, start_new_session=True,
                                   env={**self.machine.environment, **(environment or {})}, **streams)
        self.running.add(process)
        return process

    def run(self, job):
        """The outcome of a job, which is recorded: ok, skipped, failed, cut (by its limit or the stage's) or not reached."""
        if not self.fits(job.estimate):
            self.not_reached(job.name, job.estimate)
            return "not reached"
        log = self.logs / (job.name.replace("/", "_").replace(" ", "_")[:120] + ".log")
        start = time.monotonic()
        with open(log, "w", encoding="utf-8") as file:
            try:
                process = self.started(job.command, job.environment, stdout=file, stderr=subprocess.STDOUT)
            except OSError as error:
                self.record("case", name=job.name, outcome="failed", seconds=0.0, last=str(error))
                return "failed"
            code = wait(process, min(job.limit, self.left()))
        self.running.discard(process)
        text = log.read_text(encoding="utf-8", errors="replace")
        outcome = {None: "cut", 0: "ok", 77: "skipped"}.get(None if self.ended else code, "failed")
        fields = {"log": text[-6000:]} if outcome == "failed" else {}
        self.record("case", name=job.name, outcome=outcome, seconds=round(time.monotonic() - start, 2),
                    last=(text.strip().splitlines() or [""])[-1][:300], **fields)
        return outcome

    def run_all(self, jobs, processes):
        """Side by side, in their order."""
        queue = collections.deque(jobs)

        def work(finished):
            while queue and not self.ended:
                try:
                    job = queue.popleft()
                except IndexError:
                    break
                self.run(job)
            finished.set()

        self.finished = [threading.Event() for _ in range(max(1, min(processes, len(queue))))]
        for finished in self.finished:
            threading.Thread(target=work, args=(finished,), daemon=True).start()
        for finished in self.finished:
            finished.wait()

    def lines_of(self, name, command, estimate, environment=None):
        """The lines of JSON that a program prints, as they come; nothing where its estimate does not fit."""
        if not self.fits(estimate):
            self.not_reached(name, estimate)
            return
        with open(self.logs / f"{name}.log", "w", encoding="utf-8") as log:
            process = self.started(command, environment, stdout=subprocess.PIPE, stderr=log, text=True)
            cut = threading.Event()
            timer = threading.Timer(max(0.0, self.left()), lambda: (cut.set(), end(process)))
            timer.start()
            try:
                for line in process.stdout:
                    if line.startswith("{"):
                        yield json.loads(line)
            finally:
                timer.cancel()
                end(process)
                self.running.discard(process)
                process.stdout.close()
        if cut.is_set() or process.returncode not in (0, None):
            last = ((self.logs / f"{name}.log").read_text(errors="replace").strip().splitlines() or [""])[-1]
            self.record("case", name=name, outcome="cut" if cut.is_set() else "failed", last=last[:300])

    # ---- the end

    def closed(self, table):
        """Writes what comes back, and prints the table: a head and rows of texts."""
        self.ended = True
        for process in list(self.running):
            end(process)
        for finished in self.finished:
            finished.wait(2.0)
        self.clocks.close()
        self.lines.close()
        archive = self.work / f"{self.name}-logs.tar.xz"
        with tarfile.open(archive, "w:xz", preset=1) as logs:
            logs.add(self.logs, "logs")
        for path in [archive, *self.kept]:
            if len(list(self.out.iterdir())) >= MOST_FILES and not (self.out / path.name).exists():
                print(f"{self.name}: {path.name} is left out: {MOST_FILES} files come back")
            elif path.stat().st_size > MOST_BYTES:
                print(f"{self.name}: {path.name} is left out: {path.stat().st_size} bytes, {MOST_BYTES} come back")
            else:
                shutil.copyfile(path, self.out / path.name)
        shutil.rmtree(self.work, ignore_errors=True)
        print_table(*table)
        print(f"{self.name}: {time.monotonic() - self.start:.0f} of {self.seconds:.0f} s, {len(self.rows)} lines in "
              f"{self.out / (self.name + '.jsonl')}", flush=True)


def wait(process, seconds):
    """The exit code; None where it was ended after so many seconds."""
    try:
        return process.wait(max(0.1, seconds))
    except subprocess.TimeoutExpired:
        end(process)
        return None


def end(process):
    """Ends a program that was started in a session of its own, with what it started."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def print_table(head, rows):
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
