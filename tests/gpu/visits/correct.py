"""Stage 1: correctness of the kernels on this card. Each case is a process, because a device fault affects only its process."""

import shutil
import subprocess

from . import report
from .machine import ROOT
from .stage import Job
from .worker import CACHE

# Of tests/ops, in its order; those whose rows take cuDNN's engines, or many steps, in so many shards.
FAMILIES = {"elementwise": 1, "reduce": 1, "matmul": 1, "conv": 8, "pool": 1, "norm": 4, "softmax": 1, "loss": 1, "index": 1,
            "shape": 1, "random": 1, "rnn": 8, "attention": 1, "boxes": 1}
# Cases of tests/ops that go over every row.
LONG_CASES = ("forward agrees with the oracle in every dtype", "gradients in f32 and 16 bits agree with those in f64",
              "gradients of several consumers add up", "autocast follows the cast rule")
LONG, SHORT, SANITIZED = 45.0, 15.0, 40.0  # seconds, where no visit has measured them
LIMIT = 60.0  # of a case
# What the sanitizer looks at: (tool, families). Shared memory where it is passed around, all memory where addresses are computed.
SANITIZER = (("memcheck", ("index", "rnn", "attention", "norm")), ("racecheck", ("norm", "reduce", "softmax", "boxes")))
DEVICE = {"TANDEM_TEST_DEVICE": "cuda"}


def names_of(machine, program, *filters):
    told = subprocess.run([program, "--list-test-names-only", *filters], capture_output=True, text=True,
                          env=machine.environment)
    return [line.strip() for line in told.stdout.splitlines() if line.strip()]


def exactly(name):
    """A name as Catch's command line takes it."""
    return name.replace("\\", "\\\\").replace(",", "\\,").replace("[", "\\[")


def op_jobs(machine):
    program = machine.test("tests_ops")
    jobs = []
    for name in names_of(machine, program):
        if name not in LONG_CASES:
            jobs.append(Job(f"ops: {name}", [program, exactly(name)], SHORT, LIMIT, DEVICE))
            continue
        for family, shards in FAMILIES.items():
            for shard in range(1, shards + 1):
                part = f"{family} {shard}/{shards}" if shards > 1 else family
                jobs.append(Job(f"ops: {name}: {part}", [program, exactly(name)], LONG, LIMIT,
                                {**DEVICE, "TANDEM_TEST_ROWS": family, "TANDEM_TEST_SHARD": f"{shard}/{shards}"}))
    return jobs


def case_jobs(machine):
    """Everything else that takes a device."""
    jobs = []
    for suite, filters in (("device", ()), ("golden", ()), ("cudnn", ()), ("data", ("[device_loader]",))):
        program = machine.test(f"tests_{suite}")
        if program.exists():
            jobs += [Job(f"{suite}: {name}", [program, exactly(name)], SHORT, LIMIT, DEVICE)
                     for name in names_of(machine, program, *filters)]
    ranks = machine.test("nccl/nccl_ranks")
    if ranks.exists():
        jobs += [Job(f"nccl: {mode}", ["sh", "-c", f"{ranks} why && exec {ranks} {mode}"], SHORT, LIMIT)
                 for mode in ("collectives", "recorded", "steps", "recorded_steps")]
    return jobs


def sanitizer_jobs(machine):
    def job(name, tool, command, environment):
        return Job(name, ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", "--print-limit", "20", *command], SANITIZED,
                   SANITIZED, environment)

    jobs = [job("memcheck: every row of gpu_probe", "memcheck", [machine.probe(), "--tiny", "--once", "--only", " "], {})]
    return jobs + [job(f"{tool}: {family}", tool, [machine.test("tests_ops"), LONG_CASES[0]],
                       {**DEVICE, "TANDEM_TEST_ROWS": family, "TANDEM_TEST_SHARD": "1/16"})
                   for tool, families in SANITIZER for family in families]


def why_no_sanitizer(stage):
    if not shutil.which("compute-sanitizer"):
        return "compute-sanitizer is not installed"
    if stage.machine.emulated:
        return "compute-sanitizer does not look into an emulated GPU"
    outcome = stage.run(Job("sanitizer: one probe", ["compute-sanitizer", "--error-exitcode", "1", stage.machine.probe(), "--only",
                                                     "cuda copy"], 5.0, 15.0))
    return None if outcome == "ok" else f"compute-sanitizer does not work here: its probe is {outcome}"


def compiled_peer(machine):
    """PyTorch's compiled step once, whose code the next stages find: nothing is timed here."""
    made = CACHE.with_suffix(".new")
    worker = f"{machine.python} {ROOT}/bench/pytorch_gpu_worker.py resnet50 amp_bf16 compile cuda"
    script = f"mkdir -p {CACHE.parent} && printf 'compute 2\\nartifacts {made}\\n' | {worker} && mv {made} {CACHE}"
    return Job("pytorch: torch.compile of resnet50", ["sh", "-c", script], 100.0, 180.0, machine.foreign)


def ordered(jobs, history):
    """What an earlier visit did not reach or saw fail comes first, then the longest; estimates are what they took there."""
    def place(job):
        before = history.get(job.name)
        if before and before.get("seconds") and before["outcome"] in ("ok", "failed"):
            job.estimate = min(LIMIT, 1.25 * before["seconds"] + 2.0)
        again = before and before["outcome"] in ("failed", "cut", "not reached")
        return (not again, -job.estimate)

    return sorted(jobs, key=place)


def interleaved(first, second, share):
    """`share` of the first to one of the second, so that both begin at once."""
    first, second, result = list(first), list(second), []
    while first or second:
        result += first[:share] + second[:1]
        del first[:share], second[:1]
    return result


def run(stage, options):
    machine = stage.machine
    tiny = ["--tiny"] if machine.emulated else []
    for row in stage.lines_of("ceilings", [machine.probe(), "--only", "cuda", "ceilings", *tiny], 12.0):
        stage.record(row.pop("kind"), **row)
    reason = why_no_sanitizer(stage)
    if reason:
        stage.say(reason)
    history = report.latest_cases(machine.card)
    wanted = lambda jobs: ordered([job for job in jobs if options.only in job.name], history)
    jobs = interleaved(wanted(op_jobs(machine)), wanted(case_jobs(machine)), 3)
    if not machine.emulated and not options.no_pytorch and not CACHE.exists():
        jobs = wanted([compiled_peer(machine)]) + jobs
    if not reason:
        jobs += wanted(sanitizer_jobs(machine))
    stage.run_all(jobs, options.processes)
    stage.keep(CACHE)


def table(stage):
    cases = [row for row in stage.rows if row["kind"] == "case"]
    count = lambda outcome: sum(row["outcome"] == outcome for row in cases)
    rows = [(outcome, count(outcome)) for outcome in ("ok", "skipped", "failed", "cut", "not reached")]
    rows += [(f"failed: {row['name']}", row.get("last", "")) for row in cases if row["outcome"] == "failed"]
    return ("outcome", "cases"), rows
