"""Checks detectors that Tandem exported with onnxruntime.

    python export_detector.py DIR            # exits 1 unless it agrees with Tandem's own results
    python export_detector.py DIR --write    # and stores onnxruntime's as tests/golden/export_detector.safetensors

DIR is what tests/golden/export_detector_test.cpp left in TANDEM_EXPORT_DIR. Needs onnxruntime, onnx, numpy and safetensors;
made with the versions in the metadata of the file it writes.
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
TOLERANCE = 2e-5
DEEP = 3e-4  # hashed weights let the numbers of a deep network grow, and rounding with them
failed = False


def report(name, what, good, text):
    global failed
    failed = failed or not good
    print(f"{'ok  ' if good else 'FAIL'} {name}: {what}: {text}")


def run(path, images):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (source,) = session.get_inputs()
    assert source.name == "images" and source.shape == ["N", *images.shape[1:]], source.shape
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"images": images})))


def compare(name, found, tandem, tolerance=TOLERANCE):
    for key in ("boxes", "scores"):
        difference = np.abs(found[key] - tandem[key]).max()
        report(name, key, found[key].shape == tandem[key].shape and difference < tolerance,
               f"{found[key].shape}, largest difference {difference:.2g}, deviation {tandem[key].std():.2g}")


def check_document(path, images, expected):
    """The code of docs/export.md gives the best of the selected boxes."""
    names = {}
    text = (HERE / "../../docs/export.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "def best(" in block]
    exec("import json\n" + code, names)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = names["best"](session, images, {"tandem.output": '{"keep": 5}'})
    good = len(found) == len(images)
    for i, boxes in enumerate(found):
        scores = sorted((expected["scores"][i, a, c] for n, c, a in expected["selected"] if n == i), reverse=True)[:5]
        good = good and [box[1] for box in boxes] == scores
    report(path.stem, "docs/export.md", good, f"{[len(boxes) for boxes in found]} boxes")


def main(directory, write):
    for name in ("ssd_vgg", "ssd_resnet", "ssd_lite"):
        tandem = load_file(directory / f"{name}.safetensors")
        compare(name, run(directory / f"{name}.onnx", tandem["images"]), tandem, DEEP)
    tandem = load_file(directory / "detector.safetensors")
    plain = run(directory / "detector.onnx", tandem["images"])
    compare("detector", plain, tandem)
    whole = run(directory / "detector_suppressed.onnx", tandem["images"])
    compare("detector_suppressed", whole, tandem)
    report("detector_suppressed", "selected", whole["selected"].dtype == np.int64 and (whole["selected"][:, 1] > 0).all(),
           f"{len(whole['selected'])} boxes")
    alone = run(directory / "detector_suppressed.onnx", tandem["images"][:1])["selected"]
    same = np.array_equal(alone, whole["selected"][whole["selected"][:, 0] == 0])
    report("detector_suppressed", "an image alone", same, f"{len(alone)} boxes")
    check_document(directory / "detector_suppressed.onnx", tandem["images"], whole)
    if write and not failed:
        metadata = {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}
        for name in ("detector", "detector_suppressed"):
            metadata[f"{name}.sha256"] = hashlib.sha256((directory / f"{name}.onnx").read_bytes()).hexdigest()
        save_file(whole, HERE / "export_detector.safetensors", metadata)
    return failed


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), "--write" in sys.argv[2:]))
