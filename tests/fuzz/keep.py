#!/usr/bin/env python3
"""keep.py WORK SEEDS CORPUS TARGET…: replaces the corpora by the merged ones, within 200 files and 300 KB each.

The seeds come first, as seed-…, then inputs of all sizes, the smallest first. Findings (crash-, leak-, oom-, slow-unit-, timeout-) stay."""
import hashlib
import pathlib
import sys

FINDINGS = ("crash-", "leak-", "oom-", "slow-unit-", "timeout-")
MAX_FILES, MAX_BYTES = 200, 300_000


def spread(inputs, count):
    """At most `count` of the inputs, evenly spaced."""
    if len(inputs) <= count:
        return inputs
    return [inputs[i * len(inputs) // count] for i in range(count)]


def main():
    work, seeds, corpus = map(pathlib.Path, sys.argv[1:4])
    for target in sys.argv[4:]:
        folder = corpus / target
        merged = work / (target + ".merged")
        inputs = {f.read_bytes() for f in merged.glob("*")} if merged.is_dir() else set()
        if not inputs:
            continue
        files, size = 0, 0
        for file in folder.glob("*"):
            if not file.name.startswith(FINDINGS):
                file.unlink()
        for seed in (seeds / target).glob("*"):
            (folder / f"seed-{seed.name}").write_bytes(seed.read_bytes())
        for file in folder.glob("*"):
            inputs.discard(file.read_bytes())
            files, size = files + 1, size + file.stat().st_size
        for data in spread(sorted(inputs, key=lambda data: (len(data), data)), MAX_FILES - files):
            if files >= MAX_FILES or size + len(data) > MAX_BYTES:
                break
            (folder / hashlib.sha1(data).hexdigest()[:16]).write_bytes(data)
            files, size = files + 1, size + len(data)
        print(f"{target}: {files} inputs, {size} bytes")


main()
