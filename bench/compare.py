"""Training steps side by side: two processes take turns on the same pinned cores.

Tandem in FP32 against PyTorch in FP32 and in AMP-BF16 against PyTorch's autocast to bfloat16, and mixed precision
against Tandem's own FP32. Both processes build the model, warm up, and then run blocks of steps alternately; each pair
of neighbouring blocks gives one ratio. The order within a pair alternates. Blocks during which foreign processes used
the cores are discarded, and measurement starts when the cores are quiet. On cores that are never quiet, --clock cpu
compares the CPU seconds of the two processes, whose threads then sleep while they wait; foreign processes still disturb
the caches. The tables give the median of the paired ratios with its quartiles, and keep the rows of other contests,
machines and clocks (bench/results.py).

Each row also has the limits of these cores (rates of products and bandwidths, measured by Tandem's kernels after the last
pair) and the share of that roofline that Tandem's step reaches. Both are left out if foreign processes disturb them.

In the workload resnet20_shared, two busy loops run on the same cores and no thread is bound to a core: it shows the cost
of waiting for a thread that is not running.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import results
from workloads import FIRST_LOSS_TOLERANCE, LEVELS, NAMES, OPPONENTS, WORKLOADS

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


def busy_ticks(cores):
    """Ticks that the given cores were not idle."""
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


class BusyLoop:
    def __init__(self, cores):
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-c", "while True: pass"])

    def close(self):
        self.process.kill()
        self.process.wait()


class Worker:
    def __init__(self, label, command, cores, threads, clock, bound, level):
        self.label = label
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), **level)
        if bound:
            environment.update(OMP_PROC_BIND="close", OMP_PLACES="cores")
        if clock == "cpu":
            environment["OMP_WAIT_POLICY"] = "passive"
        self.clock = clock
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

    def cpu_seconds(self):
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total * 1e-9

    def seconds(self, steps):
        """Runs the steps; returns their seconds by the chosen clock."""
        before = self.cpu_seconds()
        wall = self.ask(f"run {steps}")["seconds"]
        return wall if self.clock == "wall" else self.cpu_seconds() - before

    def close(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait()


class Cores:
    def __init__(self, cores, own, limit):
        self.cores, self.own, self.limit = cores, own, limit

    def own_ticks(self):
        return sum(process_ticks(each.process.pid) for each in self.own) + process_ticks(os.getpid())

    def foreign_share(self, call):
        """Runs call() and returns its value with the share of the cores that foreign processes used."""
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


def measure(workload, precision, opponent, options, cores):
    description, network, steps, warmup, _, loops = WORKLOADS[workload][:6]
    threads = len(cores)
    worker = str(options.worker)
    own_level = {"TANDEM_ISA": options.isa} if options.isa else {}
    tandem = Worker("Tandem", [worker, network, precision, str(threads)], cores, threads, options.clock, loops == 0, own_level)
    if results.is_pytorch(opponent):
        peer_precision = "fp32" if opponent == "pytorch_fp32" else precision
        variant = ["compiled"] if opponent == "pytorch_compiled" else []
        command = [options.peer_python, "bench/pytorch_worker.py", network, peer_precision, str(threads), *variant]
        level = LEVELS[options.isa] if options.isa else {}
    else:
        command, level = [worker, network, opponent, str(threads)], own_level
    other = Worker(opponent, command, cores, threads, options.clock, loops == 0, level)
    for each in (tandem, other):
        first = each.ask("first")
        check_model(WORKLOADS[workload], each.label, each.hello, first)
        each.ask(f"run {warmup}")
    own = [tandem, other] + [BusyLoop(cores) for _ in range(loops)]
    try:
        ratios, rates, dropped = take_turns(tandem, other, own, steps, options, cores,
                                            f"{description} {NAMES[precision]} against {opponent}")
        result = {
            "workload": workload, "description": description, "precision": precision, "opponent": opponent,
            "date": str(datetime.date.today()), "cpu": results.cpu_name(), "level": results.cpu_level(options.isa),
            "threads": threads, "clock": options.clock,
            "ratio": statistics.median(ratios), "quartiles": statistics.quantiles(ratios, n=4)[::2],
            "range": [min(ratios), max(ratios)], "pairs": len(ratios), "dropped": dropped,
            "tandem_rate": statistics.median(rates[tandem]), "other_rate": statistics.median(rates[other]),
            "tandem_memory": tandem.ask("memory")["peak"], "other_memory": other.ask("memory")["peak"],
            "version": other.hello.get("version"), "phases_ms": tandem.ask("phases"),
        }
        if opponent == "pytorch_compiled":
            result["compile_seconds"] = first["seconds"]
        if loops == 0 and not WORKLOADS[workload].part:
            result.update(roofline(tandem, own, options, cores, tandem.hello["items"] / result["tandem_rate"]))
    finally:
        for each in own:
            each.close()
    return result


def check_model(workload, label, hello, first):
    """That the worker trains the workload's model, by its parameters and first loss."""
    if workload.parameters not in (0, hello["parameters"]):
        sys.exit(f"bench: {workload.network} has {workload.parameters:,} parameters, but that of {label} {hello['parameters']:,}")
    if workload.first_loss and abs(first["losses"][0] - workload.first_loss) > FIRST_LOSS_TOLERANCE:
        sys.exit(f"bench: the first loss of {workload.network} is {workload.first_loss:.2f}, but that of {label} "
                 f"{first['losses'][0]:.2f}")


def measure_with_files(contest, options, cores):
    with tempfile.TemporaryDirectory() as folder:
        if script := WORKLOADS[contest[0]].files:
            subprocess.run([options.peer_python, f"bench/{script}", folder], check=True, cwd=ROOT)
            os.environ["TANDEM_BENCH_FILES"] = folder
        return measure(*contest, options, cores)


def roofline(tandem, own, options, cores, seconds):
    """Limits of these cores, and the share of them that a step of `seconds` by the chosen clock reaches; nothing if foreign processes
    disturbed each measurement."""
    guard = Cores(cores, own, options.foreign_limit)
    for _ in range(5):
        limits, foreign = guard.foreign_share(lambda: tandem.ask("limits"))
        if foreign <= guard.limit:
            step = tandem.ask("roofline")
            return {"limits": limits, "roofline": dict(step, share=results.share(step, seconds, options.clock, len(cores)))}
    print(f"bench: no limits: foreign processes used {100 * foreign:.0f} % of the cores {cores}", file=sys.stderr)
    return {}


def take_turns(tandem, other, own, steps, options, cores, title):
    """Ratios of neighbouring blocks, items per second of each worker's blocks, and the number of disturbed pairs."""
    guard = Cores(cores, own, options.foreign_limit if options.clock == "wall" else float("inf"))
    ratios, rates, dropped = [], {tandem: [], other: []}, 0
    while len(ratios) < options.pairs:
        if options.clock == "wall":
            guard.wait_until_quiet(options.patience)
        order = (tandem, other) if len(ratios) % 2 == 0 else (other, tandem)
        seconds, share = guard.foreign_share(lambda: {w: w.seconds(steps) for w in order})
        if share > guard.limit:
            dropped += 1
            if dropped > 3 * options.pairs:
                sys.exit(f"bench: foreign processes disturbed {dropped} pairs; nothing written")
            continue
        for each in order:
            rates[each].append(tandem.hello["items"] * steps / seconds[each])
        ratios.append(seconds[other] / seconds[tandem])
        print(f"\r{title}: pair {len(ratios)}/{options.pairs}, ratio {ratios[-1]:.3f}", end="", file=sys.stderr,
              flush=True)
    print(file=sys.stderr)
    return ratios, rates, dropped


def shows(workload, precision, opponent, clock):
    """Whether a contest is measured. Beside busy loops, PyTorch is the opponent, and CPU seconds do not show waiting. Parts have one
    precision and one opponent; PyTorch is compiled for whole steps on idle cores."""
    if opponent == "pytorch_compiled" and WORKLOADS[workload].loops > 0:
        return False
    if WORKLOADS[workload].part:
        return precision == "fp32" and opponent == "pytorch"
    return WORKLOADS[workload].loops == 0 or (opponent == "pytorch" and clock == "wall")


def report(result):
    memory = result["tandem_memory"] / result["other_memory"]
    roof = f", {results.share_text(result)} of the roofline" if "roofline" in result else ""
    print(f"{result['description']} {NAMES[result['precision']]}: {result['ratio']:.2f} × {results.opponent_name(result)}"
          f", memory {memory:.2f}{roof}")


def main():
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="interpreter with PyTorch (given by bench/run)")
    parser.add_argument("--worker", type=pathlib.Path, required=True, help="bench_worker (given by bench/run)")
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS), help="repeatable; default: all")
    parser.add_argument("--precision", action="append", choices=list(OPPONENTS),
                        help="precision of Tandem; repeatable; default: all")
    parser.add_argument("--against", action="append", choices=["pytorch", "pytorch_compiled", "pytorch_fp32", "fp32"],
                        help="opponent: PyTorch in the same precision, that compiled (torch.compile), PyTorch in FP32, or "
                             "Tandem's own FP32; repeatable; default: all")
    parser.add_argument("--isa", choices=list(LEVELS), help="limits both sides to the instructions of a level (docs/cpu.md)")
    parser.add_argument("--pairs", type=int, default=15, help="pairs of blocks per median ratio, at least 2")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="cpu: for shared cores; does not wait for quiet ones")
    parser.add_argument("--foreign-limit", type=float, default=0.04, help="tolerated share of the cores (wall)")
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for quiet cores (wall)")
    parser.add_argument("--output", type=pathlib.Path, default=results.RESULTS,
                        help="file of tables; their rows are beside it as .json, and rows not measured now are kept")
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error(f"--pairs {options.pairs}: expected at least 2, for quartiles")
    cores = sorted(os.sched_getaffinity(0))[: options.threads]
    if len(cores) < options.threads:
        sys.exit(f"bench: {options.threads} threads requested, {len(cores)} cores available")
    contests = [(w, p, o) for w in options.workload or WORKLOADS for p in options.precision or OPPONENTS
                for o in OPPONENTS[p] if o in (options.against or OPPONENTS[p]) and shows(w, p, o, options.clock)]
    if not contests:
        parser.error("nothing to compare: fp32 is compared with PyTorch, amp_bf16 with both, amp_fp16 with fp32; "
                     "beside busy loops PyTorch is the opponent, by the wall clock, and parts only in fp32 with PyTorch")
    measured = [measure_with_files(contest, options, cores) for contest in contests]
    results.record(measured, options.output)
    print(f"written to {options.output}")
    for result in measured:
        report(result)


if __name__ == "__main__":
    main()
