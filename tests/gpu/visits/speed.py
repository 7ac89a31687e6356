"""Stage 2: speed of the kernels and training steps, and of PyTorch's. Measurements do not overlap."""

import statistics
from typing import NamedTuple

from . import report
from .stage import Job
from .worker import CACHE, Gone, WORKLOADS, compare, pytorch, tandem


class Measurement(NamedTuple):
    workload: str
    precision: str
    beside: tuple  # "itself", or modes of PyTorch
    estimate: float  # seconds, of Tandem alone and of each one beside it


# In the order of what is worth most. The first peer is the anchor of a card: it is measured in every visit.
MEASUREMENTS = (
    Measurement("resnet50", "amp_bf16", ("itself", "eager", "compile"), 18.0),
    Measurement("resnet50", "amp_fp16", (), 10.0),
    Measurement("resnet50", "fp32", (), 10.0),
    Measurement("resnet20", "amp_bf16", ("eager", "graph"), 6.0),
    Measurement("language_650", "amp_bf16", ("eager",), 6.0),
    Measurement("language_1500", "amp_bf16", ("eager",), 6.0),
    Measurement("translation", "amp_bf16", ("eager",), 6.0),
    Measurement("ssd300_resnet34", "amp_bf16", ("eager",), 10.0),
    Measurement("resnet50_b128", "amp_bf16", (), 8.0),
)
PROBE_SECONDS, COMPILE_SECONDS = 25.0, 60.0  # the latter without what an earlier visit made


class Speed:
    def __init__(self, stage, options):
        self.stage, self.machine, self.options = stage, stage.machine, options
        self.pairs, self.blocks, self.warmup, self.block_seconds = (1, 1, 1, 0.01) if self.machine.emulated else (4, 3, 30, 1.5)
        stage.say(self.machine.table()[1])
        self.search = self.machine.search_seconds()
        self.known_peers = report.peers(self.machine.card)
        self.workers = {}  # by (workload, precision, mode), "" for Tandem
        self.tables = []

    def estimate(self, m, mode=""):
        """Seconds that a step of Tandem's takes to be measured, or one beside it."""
        if self.machine.emulated:
            return 3.0
        search = self.search if mode in ("", "itself") and WORKLOADS[m.workload].items == "images" else 0.0
        return m.estimate + search + (COMPILE_SECONDS if mode == "compile" and not CACHE.exists() else 0.0)

    def own_table(self, name):
        """A worker's table, which is joined with the others at the end."""
        self.tables.append(self.stage.own_table(name))
        return self.tables[-1]

    def modes(self, measurement):
        """Who is measured beside Tandem: the anchor, and peers that this card has no figure of."""
        anchor = MEASUREMENTS[0].workload
        return [mode for mode in measurement.beside
                if mode == "itself" or self.options.peers or (measurement.workload == anchor and mode == "eager")
                or (measurement.workload, measurement.precision, mode) not in self.known_peers]

    def start(self, measurements):
        """All at once, on all cores; nothing is measured before all have loaded."""
        for m in measurements:
            self.workers[m.workload, m.precision, ""] = tandem(self.stage, m.workload, m.precision,
                                                               self.own_table(f"{m.workload}-{m.precision}"))
            for mode in self.modes(m):
                key = m.workload, m.precision, mode
                if mode == "itself":
                    self.workers[key] = tandem(self.stage, m.workload, m.precision,
                                               self.own_table(f"{m.workload}-{m.precision}-itself"), " itself")
                elif not self.options.no_pytorch:
                    self.workers[key] = pytorch(self.stage, m.workload, m.precision, mode)
        for worker in self.workers.values():
            try:
                worker.load(40.0)
            except Gone:
                pass  # told when its turn comes

    def probe(self):
        tiny = ["--tiny"] if self.machine.emulated else []
        only = ["--only", self.options.only] if self.options.only else []
        limit = max(1.0, min(40.0, self.stage.left() - 5.0))
        for row in self.stage.lines_of("probe", [self.machine.probe(), "--seconds", f"{limit:.0f}", *tiny,
                                                 "--algorithms", self.own_table("probe"), *only],
                                       3.0 if self.machine.emulated else PROBE_SECONDS):
            self.stage.record(row.pop("kind"), **row)

    def alone(self, ours):
        """Blocks of Tandem's."""
        rates = []
        for _ in range(self.blocks):
            if rates and not self.stage.fits(3.0):
                break
            rates.append(ours.rate())
        return statistics.median(rates)

    def measure(self, m):
        name = f"{m.workload} {m.precision}"
        ours = self.workers[m.workload, m.precision, ""]
        fields = {"workload": m.workload, "precision": m.precision, "batch": WORKLOADS[m.workload].batch}
        if not self.stage.fits(self.estimate(m)):
            self.stage.not_reached(name, self.estimate(m))
            return
        try:
            ours.warm_up(self.warmup, self.block_seconds)
            rate = self.alone(ours)
            memory = ours.ask("memory")["peak_memory_bytes"]
            self.stage.record("rate", **fields, rate=rate, peak_memory_bytes=memory)
        except Gone as error:
            self.stage.record("case", name=name, outcome="failed", last=str(error))
            return
        for mode in self.modes(m):
            self.beside(m, mode, ours, fields)

    def beside(self, m, mode, ours, fields):
        name = f"{m.workload} {m.precision} beside {mode}"
        other = self.workers.get((m.workload, m.precision, mode))
        if other is None:
            return
        if not self.stage.fits(self.estimate(m, mode)):
            self.stage.not_reached(name, self.estimate(m, mode))
            return
        try:
            version = other.load().get("version")
            other.warm_up(self.warmup, self.block_seconds)
            row = compare(self.stage, ours, other, self.pairs, 4.0)
            memory = other.ask("memory")["peak_memory_bytes"]
            self.stage.record("pair", **fields, beside=mode, version=version, **row, other_memory=memory)
            if mode == "compile":
                self.keep_artifacts(other)
        except Gone as error:
            self.stage.record("case", name=name, outcome="failed", last=str(error))
        other.close()

    def keep_artifacts(self, worker):
        path = self.stage.work / CACHE.name
        worker.ask(f"artifacts {path}", 20.0)
        self.stage.keep(path)

    def join_tables(self):
        """All that was chosen, under the first line that the tables share."""
        head, choices = None, {}
        for path in self.tables:
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            if not lines or (head and lines[0] != head):
                continue
            head = lines[0]
            choices.update((line.split("\t")[0], line) for line in lines[1:])
        if head:
            path = self.stage.work / "algorithms.txt"
            path.write_text("\n".join([head, *(choices[key] for key in sorted(choices))]) + "\n", encoding="utf-8")
            self.stage.keep(path)

    def run(self):
        measurements = [m for m in MEASUREMENTS if self.options.only in f"{m.workload} {m.precision}"]
        if self.options.no_pytorch:
            self.stage.say(f"no PyTorch beside Tandem: {self.options.no_pytorch}")
        self.start(measurements)
        self.probe()
        for m in measurements:
            self.measure(m)
            self.workers.pop((m.workload, m.precision, "")).close()
        ranks = self.machine.test("nccl/nccl_ranks")
        if ranks.exists() and self.options.only in "nccl: measure":
            self.stage.run(Job("nccl: measure", ["sh", "-c", f"{ranks} why && exec {ranks} measure"], 6.0, 20.0))

    def conclude(self):
        for worker in self.workers.values():
            worker.close()
        self.join_tables()


def run(stage, options):
    speed = Speed(stage, options)
    try:
        speed.run()
    finally:
        speed.conclude()


def table(stage):
    rows = []
    for row in stage.rows:
        if row["kind"] == "rate":
            rows.append((f"{row['workload']} {row['precision']}", f"{row['rate']:.1f} {WORKLOADS[row['workload']].items}/s", ""))
        elif row["kind"] == "pair":
            rows.append((f"  beside {row['beside']}", f"{row['other_rate']:.1f}",
                         f"{row['ratio']:.3f} ({row['q1']:.3f}–{row['q3']:.3f})"))
    probed = [row for row in stage.rows if row["kind"] == "row" and "us" in row]
    slow = sorted(probed, key=lambda row: row["floor_us"] / row["us"])[:10]
    rows += [(row["row"], f"{row['us']:.1f} us", f"{row['floor_us'] / row['us']:.2f} of its floor") for row in slow]
    rows += [(row["name"], row["outcome"], row.get("last", "")) for row in stage.rows if row["kind"] == "case"]
    return ("what", "measured", "ratio"), rows

