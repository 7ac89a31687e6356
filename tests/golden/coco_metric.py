"""Metrics of detectors: tests/golden/coco_metric.json.

    python coco_metric.py > coco_metric.json    # needs pycocotools 2.0.11; the committed file was made so

200 synthetic sets of objects and detections, which tests/metrics/drawn_set.h makes too, so that only results are
stored: crowds, difficult objects, areas at the borders of ranges, boxes without area, equal scores and overlaps, annotation
0, categories without objects, images with more than 100 detections, sets without any. COCO's figures are pycocotools'. VOC's
are those of `voc`, which follows the development kit's VOCevaldet on whole arrays; that kit is MATLAB.
"""
import contextlib
import io
import json
import sys
from importlib.metadata import version

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from drawn import Hash

SETS = 200
CURVES = 12  # sets whose curves are stored
SIDES = [0, 4, 10, 16, 32, 32, 48, 96, 96, 100, 128, 200]


def drawn_box(draw, unit):
    x, y, width = draw.below(100) * unit, draw.below(100) * unit, draw.of(SIDES)
    return [x, y, width, width if draw.below(2) else draw.of(SIDES)]


def drawn_objects(draw, i, images, categories, unit):
    used = categories[:-1] if i % 3 == 1 and len(categories) > 1 else categories
    objects = []
    for image in images:
        for _ in range(draw.below(10)):
            box = drawn_box(draw, unit)
            kind = draw.below(6)
            area = 1024 if kind == 0 else 9216 if kind == 1 else box[2] * box[3] * (0.5 if kind == 2 else 1)
            objects.append({"image_id": image, "category_id": draw.of(used), "bbox": box, "area": area,
                            "iscrowd": int(draw.below(8) == 0), "difficult": draw.below(4) == 0})
    first, shift = draw.below(2), draw.below(max(1, len(objects)))
    for k, each in enumerate(objects):
        each["id"] = first + (k + shift) % len(objects)
    return objects


def near(draw, box, unit):
    reach = draw.of([0, 1, 2, 8])
    moved = [value + (draw.below(2 * reach + 1) - reach) * unit for value in box]
    return moved[:2] + [max(0, side) for side in moved[2:]]


def drawn_detections(draw, i, images, categories, objects, unit):
    detections = []
    for image in images if i % 25 != 24 else []:
        here = [each for each in objects if each["image_id"] == image]
        for _ in range(105 + draw.below(40) if i % 10 == 0 else draw.below(25)):
            if here and draw.below(4):
                like = draw.of(here)
                box = near(draw, like["bbox"], unit)
                category = draw.of(categories) if draw.below(8) == 0 else like["category_id"]
            else:
                box = drawn_box(draw, unit)
                category = draw.of(categories)
            score = draw.below(17) / 16 if i % 4 < 2 else draw.below(2**20) / 2**20
            detections.append({"image_id": image, "category_id": category, "bbox": box, "score": score})
    for k in range(len(detections) - 1, 0, -1):
        other = draw.below(k + 1)
        detections[k], detections[other] = detections[other], detections[k]
    return detections


def drawn_set(i):
    draw = Hash(i)
    unit = 0.25 if i % 2 else 1
    images = [7 * k + draw.below(7) for k in range(1 + draw.below(6))]
    categories = [1 + 4 * k + draw.below(4) for k in range(1 if i % 10 == 0 else 1 + draw.below(4))]
    if i % 3 == 0:
        images.reverse()
        categories.reverse()
    objects = drawn_objects(draw, i, images, categories, unit)
    return images, categories, objects, drawn_detections(draw, i, images, categories, objects, unit)


def coco(images, categories, objects, detections):
    truth = COCO()
    truth.dataset = {"images": [{"id": each} for each in images], "categories": [{"id": each} for each in categories],
                     "annotations": [dict(each) for each in objects]}
    truth.createIndex()
    if detections:
        found = truth.loadRes([dict(each) for each in detections])
    else:  # loadRes takes none
        found = COCO()
        found.dataset = {**truth.dataset, "annotations": []}
        found.createIndex()
    evaluation = COCOeval(truth, found, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    precision = evaluation.eval["precision"][:, :, :, 0, -1]  # threshold, recall, category
    return evaluation.stats.tolist(), precision


def overlaps(box, others):
    """Of [xmin, ymin, xmax, ymax], pixels counted: 3 to 4 are two."""
    pixels = lambda boxes: (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
    shared = np.concatenate([np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])], axis=1)
    both = np.all(shared[:, 2:] - shared[:, :2] + 1 > 0, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(both, pixels(shared) / (pixels(box[None]) + pixels(others) - pixels(shared)), -np.inf)


def counted(boxes):
    """From corner and sizes to the first and last pixel, counted from 1."""
    boxes = np.array(boxes, float).reshape(-1, 4)
    return np.concatenate([boxes[:, :2] + 1, boxes[:, :2] + boxes[:, 2:]], axis=1)


def voc(objects, detections):
    """Recall and precision down to each detection of one class, and both APs; nothing without an object to find."""
    positives = sum(not each["difficult"] for each in objects)
    if positives == 0:
        return None
    order = np.argsort([-each["score"] for each in detections], kind="stable")
    marks, taken = [], set()  # 1 right, -1 wrong, 0 neither
    for detection in (detections[k] for k in order):
        here = [k for k, each in enumerate(objects) if each["image_id"] == detection["image_id"]]
        found = overlaps(counted(detection["bbox"])[0], counted([objects[k]["bbox"] for k in here]))
        best = here[int(np.argmax(found))] if here and found.max() >= 0.5 else None
        hit = best is not None and best not in taken
        marks.append(0 if best is not None and objects[best]["difficult"] else 1 if hit else -1)
        if marks[-1] == 1:
            taken.add(best)
    tp, fp = np.cumsum(np.array(marks) == 1), np.cumsum(np.array(marks) == -1)
    recall = tp / positives
    with np.errstate(invalid="ignore"):
        precision = np.nan_to_num(tp / (tp + fp), nan=0.0)  # MATLAB's max passes NaN over
    grid = [k * 0.1 if k <= 5 else 1 - (10 - k) * 0.1 for k in range(11)]  # 0:0.1:1
    eleven = sum(max(precision[recall >= t], default=0.0) for t in grid) / 11
    knots, heights = np.r_[0, recall, 1], np.r_[0, precision, 0]
    heights = np.maximum.accumulate(heights[::-1])[::-1]
    return {"ap": [float(eleven), float(np.sum(np.diff(knots) * heights[1:]))], "recall": recall.tolist(),
            "precision": precision.tolist()}


def row(i):
    images, categories, objects, detections = drawn_set(i)
    with contextlib.redirect_stdout(io.StringIO()):
        stats, precision = coco(images, categories, objects, detections)
    of = lambda category, boxes: [each for each in boxes if each["category_id"] == category]
    classes = [voc(of(k, objects), of(k, detections)) for k in sorted(categories)]
    result = {"boxes": [len(objects), len(detections)], "coco": stats, "voc": [each and each["ap"] for each in classes],
              "ap": precision.mean(axis=(0, 1)).tolist()}
    if i < CURVES:
        result["precisions"] = precision[[0, 5], :, 0].tolist()
        result["curve"] = classes[0] and [classes[0]["recall"], classes[0]["precision"]]
    return result


def main():
    print(f'{{"pycocotools": {json.dumps(version("pycocotools"))},\n"sets": [')
    print(",\n".join(json.dumps(row(i)) for i in range(SETS)))
    print("]}")


if __name__ == "__main__":
    sys.exit(main())
