"""Measurements of visits: lines of stages become bench/gpu/<date>-<card>.json, and those with the predictions bench/GPU.md."""

import json
import pathlib
import re
import sys

from .machine import ROOT, slug
from .worker import WORKLOADS

sys.path.insert(0, str(ROOT / "bench"))
from gpu_workloads import AIMS, PRECISIONS  # noqa: E402

BENCH = ROOT / "bench"
EMULATOR = "CUDA emulator"
SAME_ANCHOR = 0.02  # by how much an anchor may differ from an earlier visit's


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def files(bench):
    """Those of visits, the oldest first."""
    return sorted((bench / "gpu").glob("[0-9]*-*.json"))


def lines(bench=BENCH):
    """All lines of all visits, the oldest first."""
    return [line for path in files(bench) for line in load(path)["lines"]]


def latest_cases(card, bench=BENCH):
    """The last outcome of each case on this card."""
    return {line["name"]: line for line in lines(bench) if line["kind"] == "case" and line["card"] == card}


def peers(card, bench=BENCH):
    """(workload, precision, mode) of which this card has a figure of PyTorch's."""
    return {(line["workload"], line["precision"], line["beside"]) for line in lines(bench)
            if line["kind"] == "pair" and line["card"] == card and line["beside"] != "itself"}


# ---- merging

def read_lines(paths, say=print):
    """The lines of files of stages, and of those in folders; what cannot be read is said, and left out."""
    found = []
    for path in paths:
        for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
            try:
                texts = file.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError as error:
                say(f"report: {file}: {error.strerror}: left out")
                continue
            for number, text in enumerate(texts, 1):
                try:
                    line = json.loads(text)
                    if line["card"] == EMULATOR:
                        raise ValueError("of an emulated GPU")
                    line["date"], line["kind"], line["stage"]  # noqa: B018
                    found.append(line)
                except (ValueError, KeyError, TypeError) as error:
                    reason = "cut, or no line of a visit" if not str(error).startswith("of an") else str(error)
                    say(f"report: {file}:{number}: {reason}: left out")
                    if reason.startswith("of an"):
                        break
    return found


def merge(found, bench, say=print):
    """Adds lines to the files of their dates and cards; lines that are there already stay once."""
    for date, card in sorted({(line["date"], line["card"]) for line in found}):
        path = bench / "gpu" / f"{date}-{slug(card)}.json"
        old = load(path)["lines"] if path.exists() else []
        known = {json.dumps(line, sort_keys=True) for line in old}
        new = [line for line in found if (line["date"], line["card"]) == (date, card)
               and json.dumps(line, sort_keys=True) not in known]
        text = ",\n".join(json.dumps(line, ensure_ascii=False) for line in old + new)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"date": "{date}", "card": {json.dumps(card)}, "lines": [\n{text}\n]}}\n', encoding="utf-8")
        say(f"report: {len(new)} lines go to {path}")


# ---- what is known of a card

class Measured:
    """The last figures and outcomes of one card; what was not reached has none."""

    def __init__(self, card, of_card):
        self.card = card
        self.last = {}
        for line in of_card:
            if not line.get("not_reached") and line.get("outcome") not in ("not reached", "cut"):
                self.last[key_of(line)] = line

    def of(self, name):
        return self.last.get(name)


def key_of(line):
    if line["kind"] == "rate":
        return f"{line['workload']} {line['precision']}"
    if line["kind"] == "pair":
        return f"{line['workload']} {line['precision']} beside {line['beside']}"
    return line.get("row") or line.get("name") or line["kind"]


def step_ms(line, rate="rate"):
    """Milliseconds of a step of the workload."""
    items = WORKLOADS[line["workload"]].peer
    per_step = items["steps"] * items["streams"] if "streams" in items else line["batch"]
    return 1e3 * per_step / line[rate]


def family_of_cards(card, predicted):
    """"H100" of "NVIDIA H100 80GB HBM3"; None for a card without predictions."""
    return next((name for name in predicted["cards"] if re.search(rf"\b{name}\b", card)), None)


def predicted_us(row, card, predicted):
    """Floor and prediction of a row of gpu_probe: the model of bench/gpu/predicted.json, or what it says of this row."""
    rates = predicted["cards"][card]
    moving = row["bytes"] / (1e3 * rates["copy_gb_per_s"])
    products = rates["product_tflop_per_s"]
    flop = row["flop"] / (1e6 * products.get(row["operands"], products["bf16"]))
    share = predicted["flop_share"].get(row["family"], 1.0)
    model = max(moving / predicted["bytes_share"], flop / share)
    model += predicted["node_us"] * row["kernels"] + predicted["gap_us"] * (row["kernels"] - 1)
    return max(moving, flop), predicted["rows_us"].get(row["row"], {}).get(card, model)


# ---- the page

def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def span(values):
    return "–" if values is None else f"{number(values[0])} to {number(values[1])}"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(row) + " |" for row in rows), ""]


def when(line):
    return [line["date"], line["commit"]] if line else ["–", "–"]


def cards_of(measured, predicted):
    """(name in predictions or None, Measured or None) of every card that has either."""
    seen = {card: family_of_cards(card, predicted) for card in measured}
    return [(family, measured[card]) for card, family in sorted(seen.items())] + \
           [(card, None) for card in predicted["cards"] if card not in seen.values()]


def steps_table(measured, predicted):
    rows = []
    for key, of_cards in predicted["workloads"].items():
        workload, precision = key.split()
        for card, known in cards_of(measured, predicted):
            line = known.of(key) if known else None
            expected = of_cards.get(card) or {}
            if not line and not expected:
                continue
            ms = step_ms(line) if line else None
            floor = expected.get("floor_ms")
            rows.append([f"{WORKLOADS[workload].description}, batch {WORKLOADS[workload].batch}", PRECISIONS[precision],
                         known.card if known else card, number(floor) if floor else "–", span(expected.get("ms")),
                         number(ms) if ms else "–", f"{floor / ms:.2f}" if floor and ms else "–",
                         f"{line['rate']:.0f} {WORKLOADS[workload].items}" if line else "–", *when(line)])
    return table(["step", "precision", "card", "floor, ms", "predicted, ms", "measured, ms", "floor / measured", "a second", "date",
                  "commit"], rows)


def peers_table(measured, predicted):
    rows = []
    keys = sorted({*predicted["peers"], *(key.replace(" beside ", " ") for known in measured.values() for key in known.last
                                          if " beside " in key)} | {" ".join(aim) for aim in AIMS})
    for key in keys:
        workload, precision, beside = key.split(" ", 2)
        for card, known in cards_of(measured, predicted):
            expected = predicted["peers"].get(key, {}).get(card)
            line, ratio, theirs, spread = None, None, None, ""
            if known and beside == "own fp32":
                line, fp32 = known.of(f"{workload} {precision}"), known.of(f"{workload} fp32")
                ratio, theirs = (line["rate"] / fp32["rate"], step_ms(fp32)) if line and fp32 else (None, None)
            elif known:
                line = known.of(f"{workload} {precision} beside {beside}")
                own = known.of(f"{workload} {precision}")
                if line:
                    theirs = step_ms(line, "other_rate")
                    # A peer's figure of an earlier visit stands beside Tandem's last one.
                    again = own and own["date"] > line["date"]
                    ratio = own["rate"] / line["other_rate"] if again else line["ratio"]
                    spread = "" if again else f" ({line['q1']:.2f}–{line['q3']:.2f})"
            aim = AIMS.get((workload, precision, beside))
            if not ratio and not expected and not (aim and not measured):
                continue
            met = "" if aim is None else f"{aim} {'' if ratio is None else 'met' if ratio >= aim else 'missed'}".strip()
            peer = f"PyTorch {line.get('version', '') if line else ''} {beside}"
            name = {"itself": "itself", "own fp32": "Tandem's FP32"}.get(beside, peer)
            rows.append([WORKLOADS[workload].description, PRECISIONS[precision], known.card if known else card,
                         " ".join(name.split()), span(expected), number(theirs) if theirs else "–",
                         f"**{ratio:.2f}**{spread}" if ratio else "–", met or "–", *when(line)])
    return table(["step", "precision", "card", "beside", "its ms predicted", "its ms measured", "ratio of rates", "aim", "date", "commit"],
                 rows)


def kernels_table(measured, predicted, rows):
    cards = cards_of(measured, predicted)
    out = []
    for row in (row for row in rows if row["kind"] == "row"):
        cells = []
        for card, known in cards:
            line = known.of(row["row"]) if known else None
            us = line["us"] if line and "us" in line else None
            floor, expected = predicted_us(row, card, predicted) if card else (None, None)
            floor = line["floor_us"] if us else floor
            cells += [f"{number(floor)}" if floor else "–", number(expected) if expected else "–", number(us) if us else "–",
                      f"{floor / us:.2f}" if us else "–"]
        out.append([row["row"], f"{row['bytes'] / 1e6:.4g}", f"{row['flop'] / 1e9:.4g}", *cells])
    head = ["row", "MB", "GFLOP"]
    for card, known in cards:
        head += [f"{card or known.card}: floor, us", "predicted", "measured", "floor / measured"]
    return table(head, out)


def answer(name, known):
    line = known.of(name)
    if line is None:
        return None
    if line["kind"] == "rate":
        return f"{number(step_ms(line))} ms"
    if line["kind"] == "pair":
        return f"{line['ratio']:.2f}"
    return f"{line['us']:.2f} us" if "us" in line else line.get("outcome") or line.get("failed")


def questions(bench):
    """(question, prediction, rows, seconds) of the queue."""
    found = []
    for line in (bench / "gpu/questions.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4 and cells[3].isdigit():
            found.append((cells[0], cells[1], [row.strip() for row in cells[2].split(";")], int(cells[3])))
    return found


def questions_table(measured, bench):
    rows = []
    for question, prediction, names, _ in questions(bench):
        answers = [f"{known.card}: " + ", ".join(found) for known in measured.values()
                   if (found := [text for name in names if (text := answer(name, known))])]
        rows.append([question, prediction, "; ".join(answers) or "open"])
    return table(["question", "prediction", "measured, in the order of its rows"], rows)


def anchors(of_visit):
    """What must agree between visits to a card: copy, product, PyTorch's eager ResNet-50."""
    found = {}
    for line in of_visit:
        if line["kind"] == "ceilings":
            found["copy, GB/s"] = line["copy_gb_per_s"]
            found["BF16 product, TFLOP/s"] = line["product_tflop_per_s"].get("bf16")
        elif line["kind"] == "pair" and (line["workload"], line["precision"], line["beside"]) == ("resnet50", "amp_bf16", "eager"):
            found["eager ResNet-50, images/s"] = line["other_rate"]
    return {name: value for name, value in found.items() if value}


def visits_table(bench):
    rows, before = [], {}
    names = ("copy, GB/s", "BF16 product, TFLOP/s", "eager ResNet-50, images/s")
    for path in files(bench):
        visit = load(path)
        found, earlier, about = anchors(visit["lines"]), before.get(visit["card"], {}), visit["lines"][-1]
        moved = [name for name in found if name in earlier and abs(found[name] / earlier[name] - 1) > SAME_ANCHOR]
        cases = {line["name"]: line for line in visit["lines"] if line["kind"] == "case"}
        count = lambda *outcomes: sum(line["outcome"] in outcomes for line in cases.values())
        rows.append([visit["date"], visit["card"], f"{about['driver']}, {about['convolutions']}", about["commit"],
                     *(number(found[name]) if name in found else "–" for name in names),
                     "**marked**: " + ", ".join(f"{name} moved" for name in moved) if moved else "as before" if earlier else "the first",
                     f"{count('ok')} / {count('failed')} / {count('cut', 'not reached')}"])
        before[visit["card"]] = {**earlier, **found}
    return table(["date", "card", "driver, cuDNN", "commit", *names, "anchors", "cases ok / failed / not ended"], rows)


def page(bench=BENCH, say=print):
    predicted = load(bench / "gpu/predicted.json")
    rows = load(bench / "gpu/rows.json")
    by_card = {}
    for line in lines(bench):
        by_card.setdefault(line["card"], []).append(line)
    for card in by_card:
        if not family_of_cards(card, predicted):
            say(f"report: {card} is not in bench/gpu/predicted.json: it has figures, and no predictions")
    measured = {card: Measured(card, of_card) for card, of_card in by_card.items()}
    failed = [f"- {card}: {line['name']}: {line.get('last', '')}" for card, known in measured.items()
              for line in known.last.values() if line["kind"] == "case" and line["outcome"] == "failed"]
    text = ["# Tandem on a GPU", "",
            "Written by `tests/gpu/visit report` from [gpu/](gpu): what visits to a GPU measured ([how](../docs/gpu-visits.md)), "
            "beside what was predicted of it ([predicted.json](gpu/predicted.json)). A floor is the larger of the bytes at the rate of a "
            "copy and the products at the rate of a large one; of a step it is the sum over its kernels. Predictions are estimates, and "
            "no claim.", ""]
    if not measured:
        text += ["**Nothing has been measured yet**: there are predictions, and no figures.", ""]
    else:
        text += ["## Visits", "", "A visit is marked where what does not depend on Tandem moved by more than 2 % since the card's last "
                 "one.", "", *visits_table(bench)]
    text += ["## Training steps", "", *steps_table(measured, predicted),
             "## Beside PyTorch and itself", "",
             "Ratios are medians of blocks in turns, with their quartiles; above 1 Tandem is faster.", "",
             *peers_table(measured, predicted),
             "## Questions", "", *questions_table(measured, bench)]
    if failed:
        text += ["## Cases that failed last", "", *failed, ""]
    text += ["## Kernels", "", "Rows of `gpu_probe`, with a cold L2; bytes and products at least.", "",
             *kernels_table(measured, predicted, rows)]
    (bench / "GPU.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def run(paths, bench=BENCH):
    found = read_lines([pathlib.Path(path) for path in paths])
    if paths and not found:
        print("report: no line of a visit to a GPU in what was given")
        return 2
    merge(found, bench)
    page(bench)
    print(f"report: {bench / 'GPU.md'}")
    return 0
