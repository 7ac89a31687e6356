"""A detector's result files, read by COCO's tool and by VOC's rules: `tandem eval RUN --out` against pycocotools.

    python detection_files.py TANDEM    # the program; exits 1 unless the twelve figures and mAP agree

Makes pictures of coloured rectangles as a COCO set with gaps between ids, crowds and empty images, and the same as a VOC devkit
with difficult objects; trains on each for two epochs and evaluates. Needs pycocotools 2.0.11, NumPy and Pillow.
"""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from coco_metric import voc
from PIL import Image
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SIDE, NAMES, IDS = 128, ["red", "green", "blue"], [3, 7, 20]
FIGURES = ["AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large", "AR1", "AR10", "AR100", "AR_small", "AR_medium", "AR_large"]
TRAINING = {"task": "detection", "model": {"name": "ssd_small"}, "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
            "schedule": {"name": "one_cycle"}, "epochs": 2}


def pictures(draw, count):
    """Pixels and objects: (class, x, y, width, height)."""
    for k in range(count):
        pixels = draw.integers(0, 60, (SIDE, SIDE, 3)).astype(np.uint8)
        objects = []
        for _ in range(0 if k % 8 == 7 else draw.integers(1, 5)):
            which, (width, height) = draw.integers(3), draw.integers(14, 100, 2)
            x, y = draw.integers(0, SIDE - width), draw.integers(0, SIDE - height)
            pixels[y:y + height, x:x + width] = 40
            pixels[y:y + height, x:x + width, which] = 220
            objects.append((int(which), int(x), int(y), int(width), int(height)))
        yield pixels, objects


def write_coco(folder, split, samples):
    images, annotations = [], []
    (folder / split).mkdir(parents=True)
    for k, (pixels, objects) in enumerate(samples):
        name, image = f"{k:03}.png", 5 * k + 2
        Image.fromarray(pixels).save(folder / split / name)
        images.append({"id": image, "file_name": name, "width": SIDE, "height": SIDE})
        for which, *box in objects:
            crowd = len(annotations) % 11 == 10
            segmentation = {"size": [SIDE, SIDE], "counts": [0, SIDE * SIDE]} if crowd else []
            annotations.append({"id": 100 + len(annotations), "image_id": image, "category_id": IDS[which], "bbox": box,
                                "area": box[2] * box[3], "iscrowd": int(crowd), "segmentation": segmentation})
    categories = [{"id": each, "name": name} for each, name in zip(IDS, NAMES)]
    path = folder / f"{split}.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def write_voc(folder, split, samples):
    """The objects as voc() has them."""
    base = folder / "VOC2007"
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (base / name).mkdir(parents=True, exist_ok=True)
    truth, names = [], []
    for k, (pixels, objects) in enumerate(samples):
        name = f"{split}{k:03}"
        names.append(name)
        Image.fromarray(pixels).save(base / "JPEGImages" / f"{name}.jpg", quality=95)
        xml = f"<annotation><filename>{name}.jpg</filename><size><width>{SIDE}</width><height>{SIDE}</height><depth>3</depth></size>"
        for which, x, y, width, height in objects:
            difficult = len(truth) % 7 == 6
            xml += (f"<object><name>{NAMES[which]}</name><difficult>{int(difficult)}</difficult><bndbox><xmin>{x + 1}</xmin>"
                    f"<ymin>{y + 1}</ymin><xmax>{x + width}</xmax><ymax>{y + height}</ymax></bndbox></object>")
            truth.append({"image_id": name, "class": NAMES[which], "bbox": [x, y, width, height], "difficult": difficult})
        (base / "Annotations" / f"{name}.xml").write_text(xml + "</annotation>")
    (base / "ImageSets/Main" / f"{split}.txt").write_text("\n".join(names) + "\n")
    return truth


def evaluated(tandem, folder, data):
    """Tandem's figures, and where its results lie."""
    config, run, results = folder / "config.json", folder / "run", folder / "results"
    config.write_text(json.dumps({**TRAINING, "data": {**data, "path": str(folder), "batch_size": 8}}))
    subprocess.run([tandem, "train", config, f"run_dir={run}", "--quiet"], check=True)
    text = subprocess.run([tandem, "eval", run, "--json", "--out", results], check=True, capture_output=True, text=True).stdout
    return json.loads(text)["metrics"], results


def coco_difference(tandem, folder, draw):
    write_coco(folder, "train", pictures(draw, 240))
    truth = write_coco(folder, "test", pictures(draw, 80))
    part = lambda name: {"annotations": f"{name}.json", "images": name}
    figures, results = evaluated(tandem, folder, {"name": "coco", "train": part("train"), "test": part("test")})
    with contextlib.redirect_stdout(io.StringIO()):
        true = COCO(str(truth))
        evaluation = COCOeval(true, true.loadRes(str(results / "detections.json")), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    print("pycocotools:", " ".join(f"{name} {value:.4f}" for name, value in zip(FIGURES, evaluation.stats)))
    # A figure that there are no objects for is -1 there and absent here.
    return max(abs(figures.get(name, -1.0) - value) for name, value in zip(FIGURES, evaluation.stats))


def voc_difference(tandem, folder, draw):
    write_voc(folder, "trainval", pictures(draw, 240))
    truth = write_voc(folder, "test", pictures(draw, 80))
    figures, results = evaluated(tandem, folder, {"name": "voc", "train": ["VOC2007/trainval"], "test": ["VOC2007/test"]})
    found = []
    for name in NAMES:
        lines = (results / "detections" / f"comp4_det_test_{name}.txt").read_text().splitlines()
        detections = []
        for image, score, *corners in map(str.split, lines):
            x, y, right, bottom = map(float, corners)
            detections.append({"image_id": image, "score": float(score), "bbox": [x - 1, y - 1, right - x + 1, bottom - y + 1]})
        found.append(voc([each for each in truth if each["class"] == name], detections)["ap"][0])
    print("VOC's rules: mAP", f"{np.mean(found):.4f}", "of", " ".join(f"{ap:.4f}" for ap in found))
    return abs(figures["mAP"] - np.mean(found))


def main():
    tandem = pathlib.Path(sys.argv[1]).resolve()
    differences = []
    for compare in (coco_difference, voc_difference):
        with tempfile.TemporaryDirectory() as folder:
            differences.append(compare(tandem, pathlib.Path(folder), np.random.default_rng(1)))
    print("largest differences:", " ".join(f"{each:.2g}" for each in differences))
    return int(max(differences) > 1e-6)  # nine digits of boxes and scores stand in the files


if __name__ == "__main__":
    sys.exit(main())
