"""VOC's figures in tests/golden/coco_metric.json against an independent port: chainercv's eval_detection_voc.

    python voc_port.py FOLDER    # exits 1 unless all agree to 1e-12; FOLDER has chainercv 0.13.1, as its archive unpacks

Needs NumPy, six and what coco_metric.py does. chainercv itself is not built: its two files of the figure want of Chainer only the
module of an array, which is NumPy. It sorts equal scores in any order, the development kit in theirs: here scores are made
different in that order before. Its eleven recalls are np.arange's, the kit's those of MATLAB's 0:0.1:1, and 0.6 and 0.7 differ in
the last bit: a class with such a recall is compared by the area alone, and counted. Its overlap of two boxes without an area
is 0/0, here 0.
"""
import importlib
import json
import pathlib
import sys
import types

import numpy as np
from coco_metric import SETS, drawn_set

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-12


def port(folder):
    """The module that has the figure, without the package around it."""
    chainer = types.ModuleType("chainer")
    chainer.cuda = types.SimpleNamespace(get_array_module=lambda *arrays: np)
    chainer.backends = types.SimpleNamespace(cuda=chainer.cuda)
    sys.modules.update({"chainer": chainer, "chainer.backends": chainer.backends})
    for name in ("chainercv", "chainercv.utils", "chainercv.utils.bbox", "chainercv.evaluations"):
        package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(folder, *name.split(".")))]
        sys.modules[name] = package
    module = importlib.import_module("chainercv.evaluations.eval_detection_voc")
    overlaps = module.bbox_iou
    module.bbox_iou = lambda a, b: np.nan_to_num(overlaps(a, b), nan=0.0)
    return module


def corners(boxes):
    """[top, left, bottom, right] of first and last pixels."""
    boxes = np.array(boxes, float).reshape(-1, 4)
    return np.stack([boxes[:, 1], boxes[:, 0], boxes[:, 1] + boxes[:, 3] - 1, boxes[:, 0] + boxes[:, 2] - 1], axis=1)


def figures(module, images, categories, objects, detections):
    """Recalls, and the APs by eleven points and by area, of each category."""
    ranks = np.empty(len(detections))
    ranks[np.argsort([-each["score"] for each in detections], kind="stable")] = np.arange(len(detections))
    of = lambda image, boxes: [k for k, each in enumerate(boxes) if each["image_id"] == image]
    label = {category: k for k, category in enumerate(sorted(categories))}
    rows = {"pred_bboxes": [], "pred_labels": [], "pred_scores": [], "gt_bboxes": [], "gt_labels": [], "gt_difficults": []}
    for image in images:
        found, true = of(image, detections), of(image, objects)
        rows["pred_bboxes"].append(corners([detections[k]["bbox"] for k in found]))
        rows["pred_labels"].append(np.array([label[detections[k]["category_id"]] for k in found], int))
        rows["pred_scores"].append(-ranks[found])
        rows["gt_bboxes"].append(corners([objects[k]["bbox"] for k in true]))
        rows["gt_labels"].append(np.array([label[objects[k]["category_id"]] for k in true], int))
        rows["gt_difficults"].append(np.array([objects[k]["difficult"] for k in true], bool))
    precision, recall = module.calc_detection_voc_prec_rec(*rows.values(), iou_thresh=0.5)
    eleven = module.calc_detection_voc_ap(precision, recall, use_07_metric=True)
    area = module.calc_detection_voc_ap(precision, recall)
    missing = len(categories) - len(eleven)
    pad = lambda values: [*values, *[np.nan] * missing]
    return list(zip([*recall, *[None] * missing], pad(eleven), pad(area)))


def main():
    module = port(sys.argv[1])
    stored = json.loads((HERE / "coco_metric.json").read_text())["sets"]
    compared, at_a_point, worst = 0, 0, 0.0
    with np.errstate(invalid="ignore"):
        for i in range(SETS):
            for ours, (recall, eleven, area) in zip(stored[i]["voc"], figures(module, *drawn_set(i)), strict=True):
                if ours is None:
                    assert recall is None, i
                    continue
                compared += 1
                worst = max(worst, abs(ours[1] - area))
                if np.isin(np.round(recall * 10, 12), [6, 7]).any():
                    at_a_point += 1
                else:
                    worst = max(worst, abs(ours[0] - eleven))
    print(f"{compared} classes of {SETS} sets, {at_a_point} with a recall of 0.6 or 0.7: largest difference {worst:.2g}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
