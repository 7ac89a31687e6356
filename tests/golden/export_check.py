"""Checks files that Tandem exported with onnxruntime, torchvision and NumPy.

    python export_check.py DIR            # exits 1 unless all of them agree with Tandem's own logits
    python export_check.py DIR --write    # and stores onnxruntime's as tests/golden/export.safetensors

DIR is what tests/golden/export_test.cpp left in TANDEM_EXPORT_DIR: NAME.onnx, some NAME.safetensors and NAME.npz of
torchvision's ResNets, and tandem.safetensors with NAME/input (NCHW) and NAME/logits. Needs onnxruntime, onnx, numpy,
safetensors, torch and torchvision; made with the versions in the metadata of the file it writes.
"""
import hashlib
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-4  # of the largest logit, where that exceeds 1: hashed weights let those of a deep network grow
failed = False


def report(name, what, found, expected):
    global failed
    difference, largest = np.abs(found - expected).max(), np.abs(expected).max()
    good = found.shape == expected.shape and difference < TOLERANCE * max(1, largest)
    failed = failed or not good
    spread = expected.std(axis=0).mean()
    print(f"{'ok  ' if good else 'FAIL'} {name}: {what}: largest difference {difference:.2g}, "
          f"largest logit {largest:.3g}, deviation over the batch {spread:.2g}")


def evaluate(path, images, expected):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    opset = 23 if path.stem.endswith("_23") else 17
    assert [entry.version for entry in model.opset_import] == [opset], model.opset_import
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (source,), (result,) = session.get_inputs(), session.get_outputs()
    assert source.shape[0] == "N" and source.shape[1:] == list(images.shape[1:]), source.shape
    assert result.name == "logits" and result.shape == ["N", *expected.shape[1:]], result.shape
    logits = session.run(["logits"], {source.name: images})[0]
    alone = session.run(["logits"], {source.name: images[:1]})[0]  # another batch size
    report(path.name, "a batch of one", alone, logits[:1])
    return logits


def check_masks(name, found, expected):
    """The classes of all pixels, but of those whose two greatest scores differ by no more than rounding."""
    global failed
    first, second = np.moveaxis(np.sort(expected, axis=-1)[..., -2:], -1, 0)
    clear = second - first > 2 * TOLERANCE * max(1, np.abs(expected).max())
    different = (found.argmax(-1) != expected.argmax(-1)) & clear
    failed = failed or different.any() or clear.mean() < 0.9
    print(f"{'FAIL' if different.any() else 'ok  '} {name}: masks: {different.sum()} of {clear.sum()} pixels differ, "
          f"{np.unique(expected.argmax(-1)).size} classes")


def check_torchvision(directory, name, images, logits):
    weights = load_file(directory / f"{name}.safetensors")
    model = getattr(torchvision.models, name.removeprefix("torchvision_"))(num_classes=10)
    model.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()}, strict=True)
    with torch.no_grad():
        report(name, f"torchvision {torchvision.__version__}", logits, model.eval()(torch.from_numpy(images)).numpy())
    with np.load(directory / f"{name}.npz", allow_pickle=False) as archive:
        assert sorted(archive.files) == sorted(weights)
        for key, value in weights.items():
            read = archive[key]
            assert read.dtype == value.dtype and read.shape == value.shape and np.array_equal(read, value), key
    print(f"ok   {name}: NumPy reads the same {len(weights)} tensors")


def main(directory, write):
    tandem = load_file(directory / "tandem.safetensors")
    kept = {}
    metadata = {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}
    for path in sorted(directory.glob("*.onnx")):
        name = path.stem
        images = tandem[f"{name}/input"]
        logits = evaluate(path, images, tandem[f"{name}/logits"])
        report(name, f"onnxruntime {onnxruntime.__version__}", tandem[f"{name}/logits"], logits)
        if logits.ndim == 4:
            check_masks(name, tandem[f"{name}/logits"], logits)
        if (directory / f"{name}.safetensors").exists():
            check_torchvision(directory, name, images, tandem[f"{name}/logits"])
        else:
            kept[name] = logits
            metadata[f"{name}.sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    if write and not failed:
        save_file(kept, HERE / "export.safetensors", metadata)
    return failed


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), "--write" in sys.argv[2:]))
