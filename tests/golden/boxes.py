"""COCO instances read by pycocotools: tests/golden/boxes.h.

    python boxes.py > boxes.h    # needs numpy and pycocotools; the committed boxes.h was made so

The instances have the features of real files: annotations before images, gaps between ids, items
out of the order of their ids, crowds as lists and as texts of runs, polygons, unknown keys.
"""
import contextlib
import io
import json
import tempfile
from importlib.metadata import version

import numpy as np
from pycocotools import mask as masks
from pycocotools.coco import COCO


def instances():
    drawn = np.random.default_rng(2014).random(3452 + 48 * 64)[3452:]
    runs = masks.encode(np.asfortranarray(drawn.reshape(48, 64) < .5))
    runs["counts"] = runs["counts"].decode()
    square = [[10.0, 10.0, 20.5, 10.0, 20.5, 20.0, 10.0, 20.0]]
    def item(number, image, category, bbox, **more):
        return {"segmentation": square, "id": number, "image_id": image, "category_id": category, "bbox": bbox, **more}
    return {
        "info": {"year": 2017, "deep": [{"annotations": [{"id": 1}]}]},
        "annotations": [
            item(907, 42, 17, [10.25, 10, 10.5, 10], area=104.125, iscrowd=0),
            item(3, 7, 90, [0, 0, 64, 48], area=1500, iscrowd=1, segmentation=runs),
            item(2206849, 42, 1, [1.5, 2.75, 3.3, 4.7], area=0, iscrowd=0, keypoints=[1, 2, 2]),
            item(5, 42, 90, [300.07, 38.65, 11.93, 61.35], area=500.5, iscrowd=1,
                 segmentation={"size": [100, 320], "counts": [31999, 1]}),
            item(6, 7, 17, [3, 4, 5, 6], area=30, iscrowd=0, bbox_mode={"bbox": [0, 0, 0, 0]}),
        ],
        "categories": [{"id": 90, "name": "toothbrush", "supercategory": "indoor"}, {"id": 1, "name": "person"},
                       {"id": 17, "name": "cat"}],
        "images": [
            {"id": 42, "file_name": "val/000042.jpg", "width": 320, "height": 100, "license": 3, "coco_url": "http://x/y"},
            {"id": 100, "file_name": "000100.jpg", "width": 10, "height": 20},
            {"id": 7, "file_name": "000007.jpg", "width": 64, "height": 48},
        ],
        "licenses": [],
    }


def read(text):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file, contextlib.redirect_stdout(io.StringIO()):
        file.write(text)
        file.flush()
        coco = COCO(file.name)
    ranks = {category: 1 + rank for rank, category in enumerate(sorted(coco.getCatIds()))}
    for image in sorted(coco.getImgIds()):
        for annotation in coco.imgToAnns[image]:
            x, y, width, height = annotation["bbox"]
            yield (image, annotation["id"], ranks[annotation["category_id"]], x, y, x + width, y + height, annotation["area"],
                   annotation["iscrowd"])


print("""// Made by boxes.py; see there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace golden {

struct InstanceCase {
  std::int64_t image, id, label;
  double x1, y1, x2, y2, area;
  bool crowd;
};
""")
print(f"// pycocotools {version('pycocotools')}, NumPy {np.__version__}.")
print("// clang-format off")
text = json.dumps(instances())
print(f'inline const std::string kInstances = R"json({text})json";\n')
print("inline const std::vector<InstanceCase> kInstanceCases = {")
for case in read(text):
    print(f"    {{{', '.join(repr(value) for value in case[:-1])}, {'true' if case[-1] else 'false'}}},")
print("};\n\n// clang-format on\n}  // namespace golden")
