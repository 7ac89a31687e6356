"""Checks the preprocessing in the metadata of exported networks with NumPy, Pillow and onnxruntime.

    python prepare_check.py TANDEM            # exits 1 unless all of them agree with the program TANDEM
    python prepare_check.py TANDEM --write    # and stores the preprocessed images as tests/golden/prepare.safetensors

Trains small networks, exports them, and for pictures of several sizes compares `tandem predict` with the network in
onnxruntime after `prepare`, the code in docs/export.md. Needs numpy, pillow, onnxruntime and
safetensors; made with the versions in the metadata of the file it writes.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import PIL
from PIL import Image
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-3  # of a probability
SIZES = [(80, 40), (40, 80), (61, 47), (32, 32), (20, 90)]
GOLDEN_SIZE = (80, 40)
CASES = {
    "colour": {"name": "image_folder", "image_size": 32},
    "grey": {"name": "image_folder", "channels": 1,
             "augment": [{"name": "random_resized_crop", "size": 28}, {"name": "pad", "padding": 2, "fill": 0.5}]},
    "fixed": {"name": "npy", "augment": [{"name": "center_crop", "size": [30, 20]}]},
}
failed = False


def check(good, text):
    global failed
    failed = failed or not good
    print(f"{'ok  ' if good else 'FAIL'} {text}")


def snippet():
    page = (HERE / "../../docs/export.md").read_text()
    names = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1), names)
    return names["prepare"]


def picture(width, height, kind):
    """Bright bands of one direction and one colour a kind, and a gradient."""
    y, x = np.mgrid[:height, :width]
    wave = np.sin([x / 3, y / 3, (x + y) / 4][kind])
    planes = [120 + 100 * wave if c == kind else 200 * x / width + 40 * y / height for c in range(3)]
    return Image.fromarray(np.stack(planes, axis=2).clip(0, 255).astype(np.uint8))


def make_data(folder):
    for split in ("train", "test"):
        for kind in range(3):
            place = folder / "pictures" / split / f"kind{kind}"
            place.mkdir(parents=True)
            for i, (width, height) in enumerate(SIZES * 3):
                picture(width + i, height + i, kind).save(place / f"{i:02}.png")
    fixed = np.stack([np.asarray(picture(40, 36, i % 3)) for i in range(60)])
    np.savez(folder / "arrays.npz", x_train=fixed, y_train=np.arange(60) % 3)


def run(tandem, folder, *arguments):
    done = subprocess.run([tandem, *arguments], cwd=folder, text=True, capture_output=True,
                          env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    if done.returncode != 0:
        sys.exit(f"tandem {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def train(tandem, folder, name, data):
    path = "arrays.npz" if data["name"] == "npy" else "pictures"
    config = {"name": name, "run_dir": name, "epochs": 4, "data": {**data, "path": path, "batch_size": 8},
              "model": {"layers": [{"type": "conv2d", "out_channels": 6, "kernel": 5, "stride": 2}, {"type": "relu"},
                                   {"type": "adaptive_avg_pool2d", "size": 1}, {"type": "flatten"},
                                   {"type": "linear", "out_features": 3}]},
              "optimizer": {"name": "adam", "lr": 0.03}}
    (folder / f"{name}.json").write_text(json.dumps(config))
    run(tandem, folder, "train", f"{name}.json", "-q")
    run(tandem, folder, "export", name, "--format", "onnx", "--out", f"{name}.onnx")
    return onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])


def probabilities(session, images):
    logits = session.run(["logits"], {"images": images})[0][0].astype(np.float64)
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def predicted(tandem, folder, name, file):
    line = json.loads(run(tandem, folder, "predict", name, file, "--json", "--top", "3"))
    result = np.zeros(3)
    for entry in line["predictions"]:
        result[entry["class"]] = entry["probability"]
    return result


def main(tandem, write):
    tandem, prepare = str(pathlib.Path(tandem).resolve()), snippet()
    kept = {"picture": np.asarray(picture(*GOLDEN_SIZE, 0))}
    versions = {"numpy": np.__version__, "pillow": PIL.__version__, "onnxruntime": onnxruntime.__version__}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(folder)
        for case, data in CASES.items():
            session = train(tandem, folder, case, data)
            metadata = session.get_modelmeta().custom_metadata_map
            spread = 0.0
            for width, height in SIZES:
                file = f"{width}x{height}.png"
                picture(width, height, 0).save(folder / file)
                own = predicted(tandem, folder, case, file)
                theirs = probabilities(session, prepare(folder / file, metadata))
                check(np.abs(own - theirs).max() < TOLERANCE, f"{case} {file}: {own.round(4)} and {theirs.round(4)}")
                squashed = picture(width, height, 0).resize((40, 36) if case == "fixed" else (32, 32))
                squashed.save(folder / "squashed.png")
                wrong = predicted(tandem, folder, case, "squashed.png")
                spread = max(spread, np.abs(own - wrong).max())
            if case != "fixed":
                check(spread > 10 * TOLERANCE, f"{case}: a squashed picture gives others, by up to {spread:.3f}")
            kept[case] = np.ascontiguousarray(prepare(folder / "80x40.png", metadata))
            versions |= {f"{case}.{key}": metadata[f"tandem.{key}"] for key in ("input", "mean", "std", "class_names")}
    if write and not failed:
        save_file(kept, HERE / "prepare.safetensors", versions)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--write" in sys.argv[2:]))
