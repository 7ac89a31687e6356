"""Checks sequence models that Tandem exported with onnxruntime.

    python export_sequences.py DIR            # exits 1 unless it agrees with Tandem's own results
    python export_sequences.py DIR --write    # and stores onnxruntime's as tests/golden/export_sequences.safetensors

DIR is what tests/golden/export_sequences_test.cpp left in TANDEM_EXPORT_DIR: NAME.onnx and sequences.safetensors with
NAME/in/PORT and NAME/out/PORT. Needs onnxruntime, onnx, numpy and safetensors; made with the versions in the metadata of
the file it writes.
"""
import hashlib
import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-5
failed = False


def report(name, what, found, expected):
    global failed
    same = found.shape == expected.shape
    difference = np.abs(found - expected).max() if same and found.size else 0.0
    good = same and difference < TOLERANCE
    failed = failed or not good
    print(f"{'ok  ' if good else 'FAIL'} {name}: {what}: {found.shape}, largest difference {difference:.2g}, "
          f"deviation {expected.std():.2g}")


def check_steps(name, session, given, results):
    """A language model word by word, its states handed on, gives what it gives of the whole."""
    names = [value.name for value in session.get_outputs()]
    state = {key: value for key, value in given.items() if key != "words"}
    logits = []
    for t in range(given["words"].shape[0]):
        found = dict(zip(names, session.run(names, {"words": given["words"][t:t + 1], **state})))
        logits.append(found["logits"])
        state = {key: found[key[0] + "_n"] for key in state}
    report(name, "step by step", np.concatenate(logits), results["logits"])


def check_document(name, session):
    """The code of docs/export.md writes what is likeliest by the whole text so far, from zeros each time."""
    global failed
    names = {}
    exec(re.findall(r"```python\n(.*?)```", (HERE / "../../docs/export.md").read_text(), re.DOTALL)[1], names)
    zeros = {value.name: np.zeros((value.shape[0], 1, value.shape[2]), np.float32)
             for value in session.get_inputs() if value.name != "words"}
    ids, words = [1], []
    while len(words) < 5:
        logits = session.run(["logits"], {"words": np.array(ids)[:, None], **zeros})[0]
        ids.append(int(logits[-1, 0].argmax()))
        if ids[-1] == 1:
            break
        words.append("<unk>" if ids[-1] == 0 else f"w{ids[-1]}")
    found = names["write"](session, 5)
    failed = failed or found != " ".join(words)
    print(f"{'ok  ' if found == ' '.join(words) else 'FAIL'} {name}: docs/export.md writes \"{found}\"")


def check_past(name, session, given, results):
    """A decoder gives the same for tokens at once, one by one and in uneven parts, after a past or none."""
    source = {key: value for key, value in given.items() if key == "lengths" or key.startswith("encoder.")}
    names = [value.name for value in session.get_outputs()]
    steps = given["input_ids"].shape[1]
    fixed = [key for key in given if key.startswith("past")]
    without = {**given, **{key: given[key][:, :, :0] for key in fixed}}
    whole = dict(zip(names, session.run(names, without)))
    for what, start, expected in (("after a past", given, results), ("from the start", without, whole)):
        for parts in ([1] * steps, [3, 1, steps - 4]):
            past, logits, first = {key: start[key] for key in fixed}, [], 0
            for count in parts:
                part = {key: given[key][:, first:first + count] for key in ("input_ids", "position_ids")}
                found = dict(zip(names, session.run(names, {**part, **source, **past})))
                past = {key: found[key.replace("past_key_values", "present")] for key in past}
                logits.append(found["logits"])
                first += count
            report(name, f"{what}, {len(parts)} parts", np.concatenate(logits, 1), expected["logits"])
            for key, value in past.items():
                report(name, f"{what}, {key}", value, expected[key.replace("past_key_values", "present")])


def check_written(name, session, expected):
    """The code of docs/export.md writes the tokens that Tandem writes, from the first three."""
    global failed
    names = {}
    exec(re.findall(r"```python\n(.*?)```", (HERE / "../../docs/export.md").read_text(), re.DOTALL)[2], names)
    found = np.array(names["continued"](session, expected[:3].tolist(), len(expected) - 3))
    same = np.array_equal(found, expected)
    failed = failed or not same
    print(f"{'ok  ' if same else 'FAIL'} {name}: writes {found.tolist()}")
    return found


def check_translations(name, encoder, decoder, tandem):
    """Both graphs give Tandem's scores of targets, and docs/export.md's code writes Tandem's greedy translations."""
    global failed
    names = {}
    exec(re.findall(r"```python\n(.*?)```", (HERE / "../../docs/export.md").read_text(), re.DOTALL)[3], names)
    source, lengths, target = (tandem[f"{name}/{key}"] for key in ("source", "lengths", "target"))
    outputs = [value.name for value in encoder.get_outputs()]
    memory = dict(zip(outputs, encoder.run(outputs, {"input_ids": source.T.copy(), "lengths": lengths})))
    past = {value.name: np.zeros((len(lengths), value.shape[1], 0, value.shape[3]), np.float32)
            for value in decoder.get_inputs() if value.name.startswith("past_key_values")}
    positions = np.tile(np.arange(len(target)), (len(lengths), 1))
    logits = decoder.run(["logits"], {"input_ids": target.T.copy(), "position_ids": positions, "lengths": lengths,
                                      **memory, **past})[0]
    scores = logits.transpose(1, 0, 2).copy()
    report(name, "encoder and decoder", scores, tandem[f"{name}/scores"])
    expected = tandem[f"{name}/written"]
    found = np.array([names["translated"](encoder, decoder, source[:length, row].tolist())
                      for row, length in enumerate(lengths)]).T.copy()
    same = np.array_equal(found, expected)
    failed = failed or not same
    print(f"{'ok  ' if same else 'FAIL'} {name}: writes {found.T.tolist()}")
    return {f"{name}/scores": scores, f"{name}/written": found}


def check_starts(name, session, given, expected):
    """Under a causal mask the first elements alone give what they give in the whole."""
    for steps in (1, 2, 5):
        found = session.run(["y"], {**given, "x": given["x"][:, :steps]})[0]
        report(name, f"the first {steps}", found, expected[:, :steps])


def check_rows(name, session, given, results):
    """A text alone, without what pads it, gives what it gives in the batch."""
    output = session.get_outputs()[0]
    extents = {value.name: value.shape for value in [*session.get_inputs(), output]}
    padded = "S" if any("S" in shape for shape in extents.values()) else "T"
    for row, length in enumerate(given["lengths"]):
        def alone(key, value):
            part = {"N": slice(row, row + 1), padded: slice(length)}
            return value[tuple(part.get(extent, slice(None)) for extent in extents[key])]

        found = session.run([output.name], {key: alone(key, value) for key, value in given.items()})[0]
        report(name, f"row {row} alone", found, alone(output.name, results[output.name]))


def session_of(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def main(directory, write):
    tandem = load_file(directory / "sequences.safetensors")
    kept = {}
    metadata = {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}
    for path in sorted(directory.glob("sequence_*.onnx")):
        name = path.stem
        onnx.checker.check_model(onnx.load(path), full_check=True)
        session = session_of(path)
        given = {key.split("/")[2]: value for key, value in tandem.items() if key.startswith(f"{name}/in/")}
        assert {value.name for value in session.get_inputs()} == set(given), name
        for value in session.get_inputs():
            steps = value.name in ("words", "input_ids", "position_ids", "x")
            source = steps and "encoder" in name or value.name.startswith("encoder.")
            assert "N" in value.shape and ("T" in value.shape) == (steps and not source), (name, value.shape)
            assert ("S" in value.shape) == source, (name, value.shape)
        assert onnx.load(path).opset_import[0].version == (23 if name.endswith("_23") else 17), name
        outputs = [value.name for value in session.get_outputs()]
        results = dict(zip(outputs, session.run(outputs, given)))
        for output, result in results.items():
            report(name, output, tandem[f"{name}/out/{output}"], result)
            if not output.startswith("present"):
                kept[f"{name}/{output}"] = result
        if "h_0" in given:
            check_steps(name, session, given, results)
            check_document(name, session)
        elif "position_ids" in given:
            check_past(name, session, given, results)
            if "lengths" in given:
                check_rows(name, session, given, results)
                encoder = session_of(directory / f"{name.replace('decoder', 'encoder')}.onnx")
                kept.update(check_translations(name, encoder, session, tandem))
            else:
                kept[f"{name}/written"] = check_written(name, session, tandem[f"{name}/written"])
        elif name.removesuffix("_23") in ("sequence_causal", "sequence_window", "sequence_alibi"):
            check_starts(name, session, given, results["y"])
        else:
            check_rows(name, session, given, results)
        metadata[f"{name}.sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    if write and not failed:
        save_file(kept, HERE / "export_sequences.safetensors", metadata)
    return failed or not kept


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), "--write" in sys.argv[2:]))
