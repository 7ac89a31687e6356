"""Tandem against PyTorch: the same training step in two processes that take turns on the same pinned cores.

Both build the model, warm up, and then run blocks of steps alternately; each pair of neighbouring blocks gives one
ratio. The order within a pair alternates. Blocks during which foreign processes used the cores are thrown away, and
nothing is measured before the cores are quiet. The table gives the median of the paired ratios with its quartiles.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")

# name: (description, steps a block, warm-up steps, aim as a ratio)
WORKLOADS = {
    "resnet20": ("ResNet-20, 28×28×1, batch 128", 8, 10, {"fp32": 1.4}),
    "resnet50": ("ResNet-50, 224×224×3, batch 16", 1, 3, {"fp32": 1.3}),
}


def busy_ticks(cores):
    """Ticks that the given cores spent on anything but idling."""
    total = 0
    with open("/proc/stat") as f:
        for line in f:
            fields = line.split()
            if fields[0].startswith("cpu") and fields[0] != "cpu" and int(fields[0][3:]) in cores:
                values = list(map(int, fields[1:9]))
                total += sum(values) - values[3] - values[4]
    return total


def process_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


class Worker:
    def __init__(self, label, command, cores, threads):
        self.label = label
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_PROC_BIND="close", OMP_PLACES="cores",
                           MKL_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cores)), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment, cwd=ROOT)
        self.hello = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: the {self.label} worker ended early (exit {self.process.wait()})")
        return json.loads(line)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait()


class Cores:
    def __init__(self, cores, workers, limit):
        self.cores, self.workers, self.limit = cores, workers, limit

    def own_ticks(self):
        return sum(process_ticks(w.process.pid) for w in self.workers) + process_ticks(os.getpid())

    def foreign_share(self, call):
        """Runs call() and returns its value with the share of the cores that others used meanwhile."""
        busy, own, start = busy_ticks(self.cores), self.own_ticks(), time.monotonic()
        value = call()
        elapsed = max(time.monotonic() - start, 1e-3)
        foreign = (busy_ticks(self.cores) - busy) - (self.own_ticks() - own)
        return value, max(0.0, (foreign - 2) / (elapsed * TICKS * len(self.cores)))

    def wait_until_quiet(self, patience):
        deadline = time.monotonic() + patience
        while True:
            _, share = self.foreign_share(lambda: time.sleep(0.5))
            if share <= self.limit:
                return
            if time.monotonic() > deadline:
                sys.exit(f"bench: other processes use {100 * share:.0f} % of the cores {self.cores}; nothing measured")


def measure(workload, precision, options, cores):
    description, steps, warmup, _ = WORKLOADS[workload]
    threads = len(cores)
    tandem = Worker("Tandem", [str(options.worker), workload, precision, str(threads)], cores, threads)
    peer = Worker("PyTorch", [options.peer_python, "bench/pytorch_worker.py", workload, precision, str(threads)],
                  cores, threads)
    guard = Cores(cores, [tandem, peer], options.foreign_limit)
    for worker in (tandem, peer):
        worker.ask(f"run {warmup}")
    ratios, rates, dropped = [], {tandem: [], peer: []}, 0
    items = tandem.hello["items"]
    while len(ratios) < options.pairs:
        guard.wait_until_quiet(options.patience)
        order = (tandem, peer) if len(ratios) % 2 == 0 else (peer, tandem)
        answers, share = guard.foreign_share(lambda: {w: w.ask(f"run {steps}") for w in order})
        if share > options.foreign_limit:
            dropped += 1
            if dropped > 3 * options.pairs:
                sys.exit(f"bench: foreign processes disturbed {dropped} pairs; nothing written")
            continue
        for worker, answer in answers.items():
            rates[worker].append(items * steps / answer["seconds"])
        ratios.append(answers[peer]["seconds"] / answers[tandem]["seconds"])
        print(f"\r{description} {precision}: pair {len(ratios)}/{options.pairs}, ratio {ratios[-1]:.3f}", end="",
              file=sys.stderr, flush=True)
    print(file=sys.stderr)
    result = {
        "workload": workload, "description": description, "precision": precision,
        "ratio": statistics.median(ratios), "quartiles": statistics.quantiles(ratios, n=4)[::2],
        "range": [min(ratios), max(ratios)], "pairs": len(ratios), "dropped": dropped,
        "tandem_rate": statistics.median(rates[tandem]), "peer_rate": statistics.median(rates[peer]),
        "tandem_memory": tandem.ask("memory")["peak"], "peer_memory": peer.ask("memory")["peak"],
        "peer_version": peer.hello["version"], "phases_ms": tandem.ask("phases"),
    }
    tandem.close()
    peer.close()
    return result


def cpu_name():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def table(results, cores):
    lines = [
        "# Training steps against PyTorch",
        "",
        f"`./run bench` on {datetime.date.today()}, {cpu_name()}, {len(cores)} pinned threads, PyTorch "
        f"{results[0]['peer_version']} eager, channels_last, fused SGD. A step is forward, loss, backward and update. "
        "Both processes take turns; the ratio is the median over pairs of neighbouring blocks (quartiles; range), "
        "above 1 means that Tandem is faster. Memory is the peak of resident bytes above the process before the "
        "model was built.",
        "",
        "| workload | precision | ratio | quartiles | range | pairs | Tandem, items/s | PyTorch, items/s | "
        "memory, Tandem / PyTorch, MB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in results:
        lines.append(
            f"| {r['description']} | {r['precision']} | **{r['ratio']:.2f}** | {r['quartiles'][0]:.2f}–"
            f"{r['quartiles'][1]:.2f} | {r['range'][0]:.2f}–{r['range'][1]:.2f} | {r['pairs']} | "
            f"{r['tandem_rate']:.1f} | {r['peer_rate']:.1f} | {r['tandem_memory'] / 1e6:.0f} / "
            f"{r['peer_memory'] / 1e6:.0f} |")
    lines += ["", "Where Tandem's step goes, ms:", "", "| workload | precision | forward | loss | backward | update |",
              "| --- | --- | ---: | ---: | ---: | ---: |"]
    for r in results:
        p = r["phases_ms"]
        lines.append(f"| {r['description']} | {r['precision']} | {p['forward']:.2f} | {p['loss']:.2f} | "
                     f"{p['backward']:.2f} | {p['update']:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--worker", type=pathlib.Path, required=True)
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS))
    parser.add_argument("--precision", action="append", choices=["fp32"])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--foreign-limit", type=float, default=0.04, help="tolerated share of the cores")
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for quiet cores")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/RESULTS.md")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: options.threads]
    if len(cores) < options.threads:
        sys.exit(f"bench: {options.threads} threads asked for, {len(cores)} cores available")
    results = [measure(w, p, options, cores)
               for w in options.workload or WORKLOADS for p in options.precision or ["fp32"]]
    options.output.write_text(table(results, cores))
    print(f"written to {options.output}")
    for r in results:
        aim = WORKLOADS[r["workload"]][3].get(r["precision"])
        print(f"{r['description']} {r['precision']}: {r['ratio']:.2f} × PyTorch (aim {aim})")


if __name__ == "__main__":
    main()
