"""Store of measured rows, bench/RESULTS.json, and the tables made from it, bench/RESULTS.md.

A row is the result of one contest on one machine with one clock. A new measurement replaces it; rows of other contests, machines and
clocks stay, so the tables combine measurements of different days.

    python3 bench/results.py     rewrites bench/RESULTS.md from bench/RESULTS.json
"""

import json
import pathlib
import platform

from workloads import NAMES, OPPONENTS, WORKLOADS

RESULTS = pathlib.Path(__file__).resolve().parent / "RESULTS.md"
PLACE = ("cpu", "level", "threads", "clock")  # equal in the rows of one table
KEY = (*PLACE, "workload", "precision", "opponent")
MACHINE = ("cpu", "threads")  # equal in a table of limits
DTYPES = {"f32": "FP32", "bf16": "BF16", "f16": "FP16"}
UNITS = {"wall": "items/s", "cpu": "items per CPU second"}
LIMITED = "both limited to "  # a requested level below the machine's
PHASES = {"wall": "ms", "cpu": "CPU ms of all threads (those of a step, divided as its phases divided the time on the wall)"}
CLOCKS = {"wall": "wall clock", "cpu": "CPU seconds of all threads (`--clock cpu`)"}


def cpu_name():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def cpu_level(isa=None):
    """Level of the x86-64 ABI and instructions for BF16 products, or the requested level."""
    if isa:
        return f"{LIMITED}{isa}"
    if platform.machine() != "x86_64":
        return platform.machine()
    with open("/proc/cpuinfo") as f:
        flags = set(next((line for line in f if line.startswith("flags")), "flags:").split(":", 1)[1].split())
    levels = {"x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
              "x86-64-v3": {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}, "x86-64-v2": {"sse4_2", "popcnt"}}
    level = next((name for name, needed in levels.items() if needed <= flags), "x86-64")
    products = [name for name, flag in {"AVX512-BF16": "avx512_bf16", "AMX-BF16": "amx_bf16"}.items() if flag in flags]
    return f"{level} with {' and '.join(products)}" if products else level


def store_of(markdown):
    """The file of rows for a file of tables."""
    return markdown.with_suffix(".json")


def load(path):
    return json.loads(path.read_text()) if path.exists() else []


def place_of(row):
    return tuple(row[name] for name in PLACE)


def machine_of(row):
    return tuple(row[name] for name in MACHINE)


def share(step, seconds, clock, threads):
    """Share of the roofline: a step's time at the limits' rates (bench_worker's `roofline`) over its own. CPU seconds are those of all
    threads."""
    return step["bound_ms"] * 1e-3 * (threads if clock == "cpu" else 1) / seconds


def merged(rows, measured):
    """The rows, with new measurements in place of old ones."""
    kept = {tuple(row[name] for name in KEY): row for row in [*rows, *measured]}

    def order(row):
        # A machine's own level first, then wall time; contests in the order of WORKLOADS, removed ones last.
        workloads, precisions = list(WORKLOADS), list(OPPONENTS)
        known = row["workload"] in WORKLOADS
        return (row["cpu"], row["threads"], row["level"].startswith(LIMITED), row["level"],
                list(CLOCKS).index(row["clock"]), not known,
                workloads.index(row["workload"]) if known else row["workload"], precisions.index(row["precision"]),
                OPPONENTS[row["precision"]].index(row["opponent"]))

    return sorted(kept.values(), key=order)


def is_pytorch(opponent):
    return opponent.startswith("pytorch")


def opponent_name(row):
    if not is_pytorch(row["opponent"]):
        return f"own {NAMES[row['opponent']]}"
    amp = row["precision"] == "amp_bf16" and row["opponent"] != "pytorch_fp32"
    compiled = ""
    if row["opponent"] == "pytorch_compiled":
        compiled = f", compiled ({row['compile_seconds']:.0f} s)" if "compile_seconds" in row else ", compiled"
    return f"PyTorch {row['version']} {'autocast bf16' if amp else 'FP32'}{compiled}"


def share_text(row):
    return f"{row['roofline']['share']:.0%}".replace("%", " %") if row.get("roofline") else "–"


def limits_table(rows):
    """Limits of the machine of these rows, one line per level: the best of several measurements, because other processes only lower
    them."""
    best = {}
    for row in rows:
        for figure, rates in (row.get("limits") or {}).items():
            for dtype, rate in (rates if isinstance(rates, dict) else {"": rates}).items():
                figures = best.setdefault(row["level"], {})
                figures[figure, dtype] = max(rate, figures.get((figure, dtype), 0.0))

    def rate(figures, figure, dtype=""):
        return f"{figures[figure, dtype]:.0f}" if (figure, dtype) in figures else "–"

    def by_type(figures, figure):
        return " / ".join(rate(figures, figure, dtype) for dtype in DTYPES)

    types = " / ".join(DTYPES.values())
    lines = [f"| {level} | {by_type(of, 'products')} | {by_type(of, 'convolutions')} | {rate(of, 'copy')} | "
             f"{by_type(of, 'elementwise')} |" for level, of in best.items()]
    return lines and ["", f"| limits | products, {types}, GFLOP/s | 3×3 convolutions, {types}, GFLOP/s | copy, GB/s | "
                      f"ReLU, {types}, GB/s |", "| --- | ---: | ---: | ---: | ---: |", *lines]


def line(row):
    quartiles, extent = ("–".join(f"{value:.2f}" for value in row[name]) for name in ("quartiles", "range"))
    memory = row["tandem_memory"], row["other_memory"]
    return (f"| {row['description']} | {NAMES[row['precision']]} | {opponent_name(row)} | **{row['ratio']:.2f}** | {quartiles} | "
            f"{extent} | {row['pairs']} | {share_text(row)} | {row['tandem_rate']:.1f} | {row['other_rate']:.1f} | "
            f"{memory[0] / 1e6:.0f} / {memory[1] / 1e6:.0f} ({memory[0] / memory[1]:.2f}) | {row['date']} |")


def phases_of(row):
    """Milliseconds of the phases by the row's clock. CPU seconds are measured for whole steps only and divided in proportion to wall
    time, which is right if foreign processes stretch all phases alike."""
    phases = row["phases_ms"]
    if row["clock"] == "wall":
        return phases
    step = 1e3 * WORKLOADS[row["workload"]].items / row["tandem_rate"]
    return {phase: step * ms / sum(phases.values()) for phase, ms in phases.items()}


def phases_table(rows):
    """Time of each phase by the clock of these rows, newest figures; without workloads beside busy loops, which stretch it, and parts."""
    newest = {}
    for row in sorted(rows, key=lambda row: row["date"]):
        known = WORKLOADS.get(row["workload"])
        if row["clock"] == "wall" and not known or known and not (known.loops or known.part):
            newest[row["description"], row["precision"]] = phases_of(row)
    listed = list(dict.fromkeys((row["description"], row["precision"]) for row in rows))
    lines = [f"| {key[0]} | {NAMES[key[1]]} | " + " | ".join(
        f"{newest[key][phase]:.2f}" for phase in ("forward", "loss", "backward", "update")) + " |"
        for key in listed if key in newest]
    return lines and ["", f"Where Tandem's step goes, {PHASES[rows[0]['clock']]}:", "",
                      "| workload | precision | forward | loss | backward | update |", "| --- | --- | ---: | ---: | ---: | ---: |",
                      *lines]


def table(rows):
    """The rows of one place."""
    level, clock = rows[0]["level"], rows[0]["clock"]
    return [
        "", f"### {level[0].upper() + level[1:] if level.startswith(LIMITED) else level}, {CLOCKS[clock]}", "",
        "| workload | Tandem | against | ratio | quartiles | range | pairs | share of the roofline | "
        f"Tandem, {UNITS[clock]} | other, {UNITS[clock]} | memory, Tandem / other, MB (share) | measured |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |", *map(line, rows), *phases_table(rows)]


def notes(rows):
    known = [name for name in WORKLOADS if any(row["workload"] == name for row in rows)]
    return [f"{WORKLOADS[name].description}: {WORKLOADS[name].note}" for name in known if WORKLOADS[name].note]


def markdown(rows):
    lines = [
        "# Training steps compared",
        "",
        "`./run bench` (rows as it measured them, on the days they name: `bench/RESULTS.json`), threads pinned but beside busy "
        "loops. PyTorch is eager, channels_last, with fused SGD, unless a note says otherwise; compiled, after `torch.compile`, whose time "
        "for the first step is in brackets. A step is forward, "
        "loss, backward and update. Both processes take turns; the ratio is the median over pairs of neighbouring blocks "
        "(quartiles; range) of the time of the table's clock, above 1 means that Tandem in the precision of the second column is "
        "faster. Memory is the peak of resident bytes above the process before the model was built.",
        "",
        "Limits are the rates of Tandem's kernels at the level: of large square products, of forward 3×3 convolutions in sizes of a "
        "ResNet-50, of a large copy and of ReLU on large tensors (bytes read and written). The roofline of a step is what its ops "
        "take at least: op by op its FLOPs at the rate of the products of its operands or its bytes at the highest bandwidth of copy "
        "and ReLU, the longer (`studies/profile`); the share of it is that time over the step's own, by the limits measured beside the row. "
        "FLOPs are those of the definition: Winograd's convolutions do with fewer, and caches hold what need not be moved, so a "
        "share may be above 100 %, as a 3×3 convolution may be faster than a product. A dash stands at parts of a task, and where other "
        "processes used the cores whenever limits were measured, by the wall clock in rows of CPU seconds, too.",
    ]
    for note in notes(rows):
        lines += ["", note]
    for machine in dict.fromkeys(map(machine_of, rows)):
        here = [row for row in rows if machine_of(row) == machine]
        cpu, threads = machine
        lines += ["", f"## {cpu}, {threads} {'thread' if threads == 1 else 'threads'}", *limits_table(here)]
        for place in dict.fromkeys(map(place_of, here)):
            lines += table([row for row in here if place_of(row) == place])
    return "\n".join(lines) + "\n"


def record(measured, output):
    """Adds rows to the store of `output` and rewrites the tables."""
    output.parent.mkdir(parents=True, exist_ok=True)
    rows = merged(load(store_of(output)), measured)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    store_of(output).write_text(f"[\n{lines}\n]\n")
    output.write_text(markdown(rows))


if __name__ == "__main__":
    record([], RESULTS)
