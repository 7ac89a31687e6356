"""Training steps on one GPU: Tandem beside PyTorch, and mixed precision beside Tandem's own FP32.

Two processes hold the same GPU and take turns: A B B A, one block of steps each, timed from end to end. Each pair of
neighbouring blocks gives one ratio; a row of the table is the median of the ratios with their quartiles. The first row of a
workload is Tandem beside itself: differences below its spread are noise.

Images lie on the GPU. In mixed precision they are 16-bit for both, Tandem's with the channels of zeros that its loader's kernel
adds (docs/cuda.md): neither casts them in the step.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name: configuration, batch, steps a block
WORKLOADS = {"resnet50": ("resnet50_synthetic", 256, 50), "resnet20": ("resnet20_synthetic", 128, 400)}
MODES = ["eager", "compile", "reduce-overhead", "max-autotune", "graph"]
# (workload, precision, opponent): the least ratio.
AIMS = {("resnet50", "amp_fp16", "eager"): 1.5, ("resnet50", "amp_bf16", "eager"): 1.5,
        ("resnet50", "amp_fp16", "best compile"): 1.2, ("resnet50", "amp_bf16", "best compile"): 1.2,
        ("resnet20", "amp_fp16", "eager"): 3.0, ("resnet20", "amp_bf16", "eager"): 3.0,
        ("resnet50", "amp_fp16", "own fp32"): 2.0, ("resnet50", "amp_bf16", "own fp32"): 2.0}


class Worker:
    def __init__(self, command, batch):
        self.batch = batch
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        cwd=ROOT / "bench")
        self.answer()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"{self.process.args} ended with {self.process.wait()}")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def rate(self, steps):
        return steps * self.batch / self.ask(f"compute {steps}")["seconds"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def tandem(options, workload, precision):
    config, batch, _ = WORKLOADS[workload]
    batch = options.batch or batch
    command = [str(options.tandem), "bench", config, "--serve", "--warmup", str(options.warmup),
               f"device={options.device}", f"precision={precision}", f"data.batch_size={batch}"]
    return Worker(command, batch)


def pytorch(options, workload, precision, mode):
    batch = options.batch or WORKLOADS[workload][1]
    command = [options.python, str(ROOT / "bench/pytorch_gpu_worker.py"), workload, precision, mode, str(batch),
               options.device]
    return Worker(command, batch)


def compare(options, workload, ours, other):
    """Ratios ours/other of neighbouring blocks, and both median rates."""
    steps = options.steps or WORKLOADS[workload][2]
    ratios, rates = [], ([], [])
    for pair in range(options.pairs):
        order = (ours, other) if pair % 2 == 0 else (other, ours)
        measured = {worker: worker.rate(steps) for worker in order}
        ratios.append(measured[ours] / measured[other])
        rates[0].append(measured[ours])
        rates[1].append(measured[other])
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else [ratios[0]] * 3
    return {"ratio": statistics.median(ratios), "q1": quartiles[0], "q3": quartiles[2],
            "ours": statistics.median(rates[0]), "other": statistics.median(rates[1])}


def rows_of(options, workload, precision):
    rows = []

    def add(opponent, ours, make):
        other = None
        try:
            other = make()
            row = compare(options, workload, ours, other)
            row["memory"] = [ours.ask("memory")["peak_memory_bytes"], other.ask("memory")["peak_memory_bytes"]]
        except (RuntimeError, BrokenPipeError, KeyError) as error:
            print(f"{workload} {precision} against {opponent}: {error}", file=sys.stderr, flush=True)
            return
        finally:
            if other:
                other.close()
        row.update(workload=workload, precision=precision, opponent=opponent)
        rows.append(row)
        print(json.dumps(row), flush=True)

    ours = tandem(options, workload, precision)
    if precision == options.precisions[0]:
        add("itself", ours, lambda: tandem(options, workload, precision))
    for mode in options.modes:
        add(mode, ours, lambda: pytorch(options, workload, precision, mode))
    if precision != "fp32":
        add("own fp32", ours, lambda: tandem(options, workload, "fp32"))
    ours.close()
    compiled = [row for row in rows if row["opponent"] in ("compile", "reduce-overhead", "max-autotune")]
    if compiled:
        best = min(compiled, key=lambda row: row["ratio"])
        rows.append(dict(best, opponent="best compile", mode=best["opponent"]))
    return rows


def markdown(rows, device):
    lines = [f"Training steps on {device}, {datetime.date.today()}. Ratio: Tandem over the other, median of pairs (quartiles).",
             "", "| workload | precision | beside | ratio | aim | Tandem images/s | other images/s | memory, GB |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        aim = AIMS.get((row["workload"], row["precision"], row["opponent"]))
        met = "" if aim is None else f"{aim} {'met' if row['ratio'] >= aim else 'missed'}"
        name = row["opponent"] + (f" ({row['mode']})" if "mode" in row else "")
        memory = " / ".join(f"{bytes_ / 1e9:.2f}" for bytes_ in row["memory"])
        lines.append(f"| {row['workload']} | {row['precision']} | {name} | {row['ratio']:.2f} ({row['q1']:.2f}–{row['q3']:.2f}) "
                     f"| {met} | {row['ours']:.0f} | {row['other']:.0f} | {memory} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter with PyTorch")
    parser.add_argument("--tandem", type=pathlib.Path, default=ROOT / "build/release/tandem")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workloads", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--precisions", nargs="+", default=["amp_bf16", "amp_fp16", "fp32"])
    parser.add_argument("--modes", nargs="*", choices=MODES, default=MODES)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--steps", type=int, help="of a block; default: the workload's")
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--batch", type=int, help="default: the workload's")
    parser.add_argument("--output", type=pathlib.Path, help="folder for gpu.md and gpu.json")
    options = parser.parse_args()
    options.tandem = options.tandem.resolve()
    rows = [row for workload in options.workloads for precision in options.precisions
            for row in rows_of(options, workload, precision)]
    device = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True,
                            text=True).stdout.strip() if options.device == "cuda" else options.device
    table = markdown(rows, device)
    print(table)
    if options.output:
        (options.output / "gpu.md").write_text(table)
        (options.output / "gpu.json").write_text(json.dumps(rows, indent=1))


main()
