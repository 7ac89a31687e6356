#!/usr/bin/env python3
"""Reads the committed corpora, the test files and N random mutations of them with Tandem's readers and with the official
safetensors and NumPy packages: both accept or both refuse, and what is accepted has equal types, shapes and bytes.

    differential.py FUZZ_REPLAY [MUTATIONS [SEED]]        needs the packages safetensors and numpy

STRICTER lists the reasons of deliberate extra strictness; such refusals are counted, not errors."""
import collections
import io
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

import numpy
import safetensors.numpy

HERE = pathlib.Path(__file__).resolve().parent

# Parts of our messages, and why what they refuse may be accepted elsewhere.
STRICTER = {
    "safetensors": {
        "stands twice": "the format forbids duplicate keys, the package lets the last one win",
        "nests deeper": "depth is limited to 8; only fields that the format does not know nest at all",
        "more than 1024 items": "lists are limited; only fields that the format does not know can be that long",
        "does not begin with": "the header begins with {, the package takes white space before it",
        "axes, at most 16": "rank is limited to 16",
        "at most 4096 are allowed": "names are limited to 4096 bytes",
        "__metadata__ maps texts": "metadata is an object of texts; the package takes null for none",
    },
    "npy": {
        "expected booleans, integers or floats": "of the dtypes only the numeric ones of 1 to 8 bytes are read",
        "without a byte order": "NumPy never writes | for elements of several bytes",
        "expected f4 or f8": "half precision is not read",
        "a boolean has one byte": "of the dtypes only the numeric ones of 1 to 8 bytes are read",
        "object array": "objects are code",
        "structured": "structured dtypes are not read",
        "oversized": "nothing may follow the data",
        "exceeds 63 bits": "integers become signed",
        "implausible extent": "extents beyond 2^48 do not fit any file",
        "8 axes": "a tensor has at most 8 axes",
        "repeats": "a key may stand once",
        "malformed": "of Python's literals only what NumPy writes is read: no escapes, prefixes, comments or digits with _",
        "unknown key": "a key written with an escape sequence is not decoded",
        "not a number": "of Python's literals only what NumPy writes is read: plain decimal numbers",
        "leading zero": "of Python's literals only what NumPy writes is read: plain decimal numbers",
        "neither True nor False": "of Python's literals only what NumPy writes is read",
        "string without an end": "of Python's literals only what NumPy writes is read",
        "goes on after": "of Python's literals only what NumPy writes is read: no comments",
        "come to more than": "arrays are limited to 2^40 bytes",
    },
}
# Where NumPy is stricter on purpose: it refuses long headers because its parser is slow for them.
LAXER = {"npy": {"Header info length": "headers are limited to 64 KiB, NumPy's parser to 10,000 characters"}, "safetensors": {}}


def official_safetensors(data):
    tensors = {}
    for name, tensor in safetensors.deserialize(bytes(data)):
        content = bytes(tensor["data"])
        if tensor["dtype"] == "BOOL":
            content = bytes(byte != 0 for byte in content)
        tensors[name] = {"dtype": tensor["dtype"], "shape": list(tensor["shape"]), "crc32": zlib.crc32(content)}
    return tensors


def official_npy(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = numpy.lib.format.read_array(io.BytesIO(bytes(data)), allow_pickle=False)
        kind, size = array.dtype.kind, array.dtype.itemsize
        if kind == "b" or (kind == "u" and size == 1):
            name, array = "u8", numpy.asarray(array, order="C").view(numpy.uint8)
        elif kind in "iu":
            name, array = "i64", array.astype(numpy.int64)
        elif kind == "f":
            name, array = "f32", array.astype(numpy.float32)
        else:
            name = str(array.dtype)
    shape = list(array.shape)
    return {"": {"dtype": name, "shape": shape, "crc32": zlib.crc32(array.tobytes(order="C"))}}


OFFICIAL = {"safetensors": official_safetensors, "npy": official_npy}


def mutated(data, source):
    """One to four edits, half of them in the first 128 bytes; sometimes one that keeps the header whole."""
    data = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 4])):
        if not data:
            break
        at = source.randrange(len(data) if source.random() < 0.5 else min(len(data), 128))
        edit = source.randrange(8)
        if edit == 0:
            data[at] ^= 1 << source.randrange(8)
        elif edit == 1:
            data[at] = source.choice(b"\0\1\x7f\x80\xff 0123456789{}[](),:'\"")
        elif edit == 2:
            del data[at : at + source.randint(1, 8)]
        elif edit == 3:
            data[at:at] = bytes(source.randrange(256) for _ in range(source.randint(1, 4)))
        elif edit == 4:
            start = source.randrange(len(data))
            data[at:at] = data[start : start + source.randint(1, 32)]
        elif edit == 5:
            data[at:at] = source.choice([b" ", b"\n", b"\t", b"0", b",", b"null", b"1e0", b"-0", b"\\u0041", b"\0"])
        elif edit == 6:
            digits = [i for i, byte in enumerate(data[:2000]) if 48 <= byte <= 57]
            if digits:
                data[source.choice(digits)] = source.choice(b"0123456789")
        else:
            del data[at:]
    return data


def fixed_length(data, kind):
    """The same with the header's length as it is, so that mutations of the text reach the parser."""
    if kind == "safetensors" and len(data) > 8:
        end = data.rfind(b"}")
        return struct.pack("<Q", max(0, end - 7)) + data[8:] if end > 8 else data
    if kind == "npy" and len(data) > 12 and data[6] == 1:
        end = data.find(b"\n", 10)
        return data[:8] + struct.pack("<H", (end - 9) & 0xFFFF) + data[10:] if end > 0 else data
    return data


def generated_npy(source):
    shape = tuple(source.randint(0, 4) for _ in range(source.randint(0, 4)))
    dtype = source.choice(["u1", "b1", "i1", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8", "<f4", ">f4", "<f8", ">f8", "<f2"])
    count = int(numpy.prod(shape))
    array = numpy.frombuffer(source.randbytes(count * numpy.dtype(dtype).itemsize), dtype).reshape(shape)
    if dtype == "b1":
        array = array.view("u1") % 2 == 0
    file = io.BytesIO()
    array = numpy.asfortranarray(array) if source.random() < 0.5 else array
    numpy.lib.format.write_array(file, array, version=(source.randint(1, 3), 0))
    return file.getvalue()


def generated_safetensors(source):
    tensors = {}
    for number in range(source.randint(0, 4)):
        dtype = numpy.dtype(source.choice(["f8", "f4", "f2", "i8", "i4", "i2", "u1", "u4", "b1"]))
        shape = tuple(source.randint(0, 3) for _ in range(source.randint(0, 4)))
        content = numpy.frombuffer(source.randbytes(int(numpy.prod(shape)) * dtype.itemsize), "u1")
        tensors[f"layer{number}.weight"] = (content % 2 if dtype == bool else content).view(dtype).reshape(shape)
    return safetensors.numpy.save(tensors, {"format": "np"} if source.random() < 0.5 else None)


GENERATED = {"safetensors": generated_safetensors, "npy": generated_npy}


def corpus(kind):
    files = sorted((HERE / "corpus" / kind).glob("*"))
    if kind == "safetensors":
        files += sorted((HERE.parent / "golden").glob("*.safetensors"))
    inputs = [file.read_bytes() for file in files]
    return [data for data in inputs if len(data) < 100_000 and not (kind == "npy" and data.startswith(b"PK"))]


def ours(replay, kind, inputs):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        names = []
        for number, data in enumerate(inputs):
            names.append(f"{folder}/{number}")
            pathlib.Path(names[-1]).write_bytes(data)
        run = subprocess.run([replay, kind, "--describe"], input="\n".join(names) + "\n", stdout=subprocess.PIPE,
                             text=True, check=True)
    lines = run.stdout.splitlines()
    assert len(lines) == len(inputs), f"{len(lines)} answers to {len(inputs)} files"
    return [json.loads(line) for line in lines]


def reason(table, text):
    return next((why for part, why in table.items() if part in text), None)


def compare(kind, data, own, counts):
    """The difference in words, or None."""
    try:
        official, error = OFFICIAL[kind](data), ""
    except Exception as exception:  # whatever the packages refuse with
        official, error = None, f"{type(exception).__name__}: {exception}"
    if not own["accepted"]:
        if official is None:
            counts["both refuse"] += 1
            return None
        why = reason(STRICTER[kind], own["why"])
        counts[f"stricter: {why}" if why else "DIFFERENCE"] += 1
        return None if why else f"only we refuse: {own['why']}"
    if official is None:
        why = reason(LAXER[kind], error)
        counts[f"laxer: {why}" if why else "DIFFERENCE"] += 1
        return None if why else f"only we accept; the package says {error}"
    for name in own["tensors"].keys() | official.keys():
        a, b = own["tensors"].get(name), official.get(name)
        same = a and b and a["dtype"] == b["dtype"] and a["shape"] == b["shape"] and a.get("crc32", b["crc32"]) == b["crc32"]
        if not same:
            counts["DIFFERENCE"] += 1
            return f"tensor {name!r}: ours {a}, the package's {b}"
    counts["both accept, equal"] += 1
    return None


def main():
    replay = sys.argv[1]
    mutations = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    source = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    failed = False
    for kind in OFFICIAL:
        seeds = corpus(kind)
        valid = [GENERATED[kind](source) for _ in range(300)]
        inputs = seeds + valid
        for _ in range(mutations):
            data = mutated(source.choice(valid if source.random() < 0.8 else seeds), source)
            inputs.append(bytes(fixed_length(data, kind) if source.random() < 0.7 else data))
        counts, shown = collections.Counter(), 0
        for data, own in zip(inputs, ours(replay, kind, inputs)):
            difference = compare(kind, data, own, counts)
            if difference and shown < 20:
                shown += 1
                print(f"{kind}: {difference}\n  {re.sub('tmp[^/]*/', '', repr(data[:300]))}")
        failed |= counts["DIFFERENCE"] > 0
        print(f"{kind}: {len(inputs)} files")
        for what, count in counts.most_common():
            print(f"  {count:6} {what}")
    return 1 if failed else 0


sys.exit(main())
