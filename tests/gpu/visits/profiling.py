"""Stage 3: profile of the time - op by op by events, kernel by kernel within recordings by CUPTI, PyTorch's kernels, and
ncu's counters of some kernels."""

import collections
import csv
import lzma
import shutil
import statistics

from .stage import Job
from .worker import Gone, WORKLOADS, pytorch, tandem, tandem_command

WORKLOADS_OF_PROFILE = (("resnet50", "amp_bf16"), ("language_650", "amp_bf16"), ("ssd300_resnet34", "amp_bf16"),
                        ("translation", "amp_bf16"), ("resnet50", "amp_fp16"), ("resnet50", "fp32"), ("resnet20", "amp_bf16"))
WORKLOADS_OF_TRACE = (("resnet50", "amp_bf16"), ("resnet20", "amp_bf16"), ("language_650", "amp_bf16"))
PROFILE_SECONDS, TRACE_SECONDS, NCU_SECONDS, TORCH_SECONDS = 15.0, 12.0, 40.0, 15.0
REPLAYS = 3  # that are traced
# Rows of gpu_probe that ncu looks at, and metrics that fit into one pass: with several, ncu saves and restores what kernels write.
NCU_ROWS = ("bn_forward 256x56x56x64 bf16", "bn_backward 256x56x56x64 bf16", "bn_forward 256x14x14x1024 bf16, addition",
            "bn_backward 256x14x14x1024 bf16, addition", "conv_filter 1x1, 56x56, 64->64", "conv_filter 1x1, 14x14, 1024->256",
            "conv_filter 3x3, 14x14, 256->256 bf16 to f32", "product 20x650", "cross_entropy 700x10000", "masked_softmax 8x16",
            "update_sgd", "max_pool")
NCU_METRICS = ("gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,"
               "smsp__issue_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread,"
               "sm__warps_active.avg.pct_of_peak_sustained_active")


def estimate(stage, seconds, workload=None):
    if stage.machine.emulated:
        return 3.0
    return seconds + (stage.machine.search_seconds() if workload and WORKLOADS[workload].items == "images" else 0.0)


def profile(stage, workload, precision):
    table = stage.own_table(f"profile-{workload}-{precision}")
    steps = ["--warmup", "1", "--steps", "1"] if stage.machine.emulated else ["--warmup", "10", "--steps", "20"]
    command = tandem_command(stage.machine, workload, precision, "--profile", "--json", *steps, "--algorithms", table)
    name = f"profile {workload} {precision}"
    for result in stage.lines_of(name, command, estimate(stage, PROFILE_SECONDS, workload)):
        stage.record("profile", workload=workload, precision=precision, step_ms=result["step_ms"]["median"],
                     peak_memory_bytes=result["peak_memory_bytes"], profile=result["profile"])


# ---- recordings

def recordings(rows):
    """The last replays of each graph in a trace: {graph: [[(start_ns, end_ns, name), …] of a replay, …]}, in order."""
    graphs = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        if row["graph"] != "0":
            graphs[row["graph"]][row["node"]].append((int(row["start_ns"]), int(row["end_ns"]), row["name"] or row["kind"]))
    result = {}
    for graph, nodes in graphs.items():
        whole = min(len(times) for times in nodes.values())
        for times in nodes.values():
            times.sort()
        result[graph] = [sorted(times[-back] for times in nodes.values()) for back in range(min(whole, REPLAYS), 0, -1)]
    return result


def summary(replays):
    """Of a graph: nodes, and in microseconds medians of a replay, of what its nodes take, and of the gaps between them."""
    gaps, busy, whole = [], [], []
    for replay in replays:
        whole.append(max(end for _, end, _ in replay) - replay[0][0])
        busy.append(sum(end - start for start, end, _ in replay))
        gaps += [after[0] - before[1] for before, after in zip(replay, replay[1:])]
    us = lambda times: round(1e-3 * statistics.median(times), 3)
    return {"nodes": len(replays[0]), "replays": len(replays), "us": us(whole), "busy_us": us(busy), "gap_us": us(gaps or [0])}


def trace(stage, library, workload, precision, merged):
    name = f"trace {workload} {precision}"
    if not stage.fits(estimate(stage, TRACE_SECONDS, workload)):
        stage.not_reached(name, estimate(stage, TRACE_SECONDS, workload))
        return
    path = stage.work / f"trace-{workload}-{precision}.csv"
    worker = tandem(stage, workload, precision, stage.own_table(f"trace-{workload}"), " trace",
                    {"CUDA_INJECTION64_PATH": str(library), "TANDEM_TRACE": str(path)})
    try:
        worker.ask("compute 8")  # ordinary steps, then the recording
        worker.ask(f"compute {REPLAYS}")
    except Gone as error:
        stage.record("case", name=name, outcome="failed", last=str(error))
        return
    finally:
        last = worker.last_words()
        worker.close()
    if not path.exists():
        stage.say(f"{name}: no trace: no driver opened {library.name}, or: {last}")
        return
    with open(path, encoding="utf-8") as file:
        graphs = recordings(csv.DictReader(file))
    if not graphs:
        stage.say(f"{name}: nothing was recorded")
    for graph, replays in graphs.items():
        stage.record("recording", workload=workload, precision=precision, graph=graph, **summary(replays))
        merged += [(workload, precision, graph, number, start, end, kernel)
                   for number, replay in enumerate(replays) for start, end, kernel in replay]


# ---- PyTorch, ncu

def torch_kernels(stage, options):
    name = "torch.profiler resnet50 amp_bf16 eager"
    if options.no_pytorch:
        stage.say(f"no kernels of PyTorch's: {options.no_pytorch}")
        return
    if not stage.fits(estimate(stage, TORCH_SECONDS)):
        stage.not_reached(name, TORCH_SECONDS)
        return
    worker = pytorch(stage, "resnet50", "amp_bf16", "eager")
    try:
        worker.ask("compute 5")
        stage.record("torch_kernels", workload="resnet50", precision="amp_bf16", **worker.ask("profile"))
    except Gone as error:
        stage.record("case", name=name, outcome="failed", last=str(error))
    worker.close()


def ncu(stage):
    if not shutil.which("ncu") or stage.machine.emulated:
        stage.say("no counters: " + ("ncu does not look into an emulated GPU" if stage.machine.emulated else "ncu is not installed"))
        return
    path = stage.work / "ncu.csv"
    command = ["ncu", "--clock-control", "none", "--nvtx", "--nvtx-include", "row]", "--print-nvtx-rename", "kernel", "--csv",
               "--page", "raw", "--metrics", NCU_METRICS, "--log-file", path, stage.machine.probe(), "--once", "--only", *NCU_ROWS]
    outcome = stage.run(Job("ncu", command, NCU_SECONDS, 2 * NCU_SECONDS))
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if outcome != "ok" or "ERR_NVGPUCTRPERM" in text:
        reason = next((line for line in text.splitlines() if "==ERROR==" in line), f"ncu is {outcome}")
        stage.say(f"no counters: {reason.strip()}")
    else:
        stage.keep(path)


def run(stage, options):
    wanted = lambda pairs: [pair for pair in pairs if options.only in " ".join(pair)]
    for workload, precision in wanted(WORKLOADS_OF_PROFILE)[:4]:
        profile(stage, workload, precision)
    merged = []
    library = stage.machine.build / "tests/gpu/libtandem_trace.so"
    if not library.exists():
        stage.say(f"no trace: {library.name} is not there; it is built where cupti.h is")
    else:
        for workload, precision in wanted(WORKLOADS_OF_TRACE):
            trace(stage, library, workload, precision, merged)
    if merged:
        path = stage.work / "trace.csv.xz"
        with lzma.open(path, "wt", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("workload", "precision", "graph", "replay", "start_ns", "end_ns", "name"), *merged])
        stage.keep(path)
    torch_kernels(stage, options)
    ncu(stage)
    for workload, precision in wanted(WORKLOADS_OF_PROFILE)[4:]:
        profile(stage, workload, precision)


def table(stage):
    rows = []
    for row in stage.rows:
        what = f"{row.get('workload', '')} {row.get('precision', '')}"
        if row["kind"] == "profile":
            rows.append((what, f"{row['step_ms']:.2f} ms a step", "its slowest op: " + slowest(row["profile"])))
        elif row["kind"] == "recording":
            rows.append((what, f"{row['nodes']} nodes, {row['us']:.0f} us", f"gaps of {row['gap_us']:.2f} us"))
        elif row["kind"] == "case":
            rows.append((row["name"], row["outcome"], row.get("last", "")))
    return ("what", "measured", ""), rows


def slowest(profile):
    ops = profile["slowest"]
    return f"{ops[0]['op']} {ops[0]['direction']}, {ops[0]['ms']:.2f} ms" if ops else "none"
