#!/usr/bin/env python3
"""Reads the event files of a run with TensorBoard's own reader and compares them with metrics.jsonl.

usage: tensorboard_check.py RUN    (with a Python that has the package `tensorboard`)

Prints one line of counts; ends with 1 and the first differences when something is missing, superfluous or different.
"""
import json
import math
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SCALARS = ("loss", "lr", "loss_scale", "grad_norm", "items_per_s", "skipped")


def as_f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expected(path):
    """{tag: {step: value}}; a resumed session replaces what was said of later steps."""
    found = {}
    for line in path.read_text().splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if event["event"] == "start":
            for values in found.values():
                for step in [s for s in values if s > event["step"]]:
                    del values[step]
        elif event["event"] == "step":
            for name in SCALARS:
                found.setdefault(name, {})[event["step"]] = event[name]
        elif event["event"] == "eval":
            for name, value in event["metrics"].items():
                found.setdefault(f"{event['split']}/{name}", {})[event["step"]] = value
    return found


def same(read, wanted):
    if wanted is None:
        return not math.isfinite(read)
    return read == as_f32(wanted)


def main(run):
    accumulator = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
    accumulator.Reload()
    tags = accumulator.Tags()
    wrong = []
    wanted = expected(run / "metrics.jsonl")
    if sorted(tags["scalars"]) != sorted(wanted):
        wrong.append(f"scalars {sorted(tags['scalars'])} instead of {sorted(wanted)}")
    count = 0
    for tag, values in wanted.items():
        read = {}
        for event in accumulator.Scalars(tag) if tag in tags["scalars"] else []:
            read[event.step] = event.value  # of a step the last one
        if sorted(read) != sorted(values):
            wrong.append(f"{tag}: steps {sorted(set(read) ^ set(values))[:5]} are on one side only")
            continue
        count += len(read)
        wrong += [f"{tag}: {read[s]} instead of {v} at step {s}" for s, v in values.items() if not same(read[s], v)]

    config = json.loads((run / "config.json").read_text())
    texts = [t for t in tags["tensors"] if t.startswith("config")]
    if not texts:
        wrong.append("no text \"config\"")
    else:
        tensor = accumulator.Tensors(texts[0])[-1].tensor_proto
        if json.loads(tensor.string_val[0].decode()) != config:
            wrong.append("the text is not config.json")
        if accumulator.SummaryMetadata(texts[0]).plugin_data.plugin_name != "text":
            wrong.append("the configuration is not for the text dashboard")

    histograms = tags["histograms"]
    for tag in histograms:
        for event in accumulator.Histograms(tag):
            value = event.histogram_value
            edges = value.bucket_limit
            if sum(value.bucket) != value.num or any(a >= b for a, b in zip(edges, edges[1:])):
                wrong.append(f"{tag}: buckets of step {event.step} are not in order, or not of all values")
            if not value.min <= value.max <= edges[-1]:
                wrong.append(f"{tag}: the greatest value of step {event.step} lies outside of the buckets")
    if config["tensorboard_histograms"] and not histograms:
        wrong.append("no histograms")

    for line in wrong[:10]:
        print(line)
    print(f"{count} scalars of {len(wanted)} tags, {len(histograms)} histograms, {len(texts)} text: "
          + ("as metrics.jsonl" if not wrong else f"{len(wrong)} differences"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
