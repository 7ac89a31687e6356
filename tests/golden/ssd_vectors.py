"""Small values of SSD in tests: the multibox loss of synthetic outputs, the order of boxes in NVIDIA's files, the number
of anchors for each object of three photographs, and the choice among many equal overlaps.

    python ssd_vectors.py [FOLDER]    # needs numpy and torch; tests/tasks/detection/{multibox,box_fit}_test.cpp and
                                      # tests/models/{anchors,ssd_files}_test.cpp have what it prints

FOLDER: examples/bbox_detection/data_dataset_voc of Debian's package labelme-examples.
"""
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

CELLS, STEPS = (38, 19, 10, 5, 3, 1), (8, 16, 32, 64, 100, 300)
SIZES = {"coco300": (21, 45, 99, 153, 207, 261, 315), "voc300": (30, 60, 111, 162, 213, 264, 315)}
RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))


def anchors(grid):
    """FP64 (cx, cy, w, h), clipped: level, row, column, number within the cell."""
    boxes, sizes = [], SIZES[grid]
    for level, cells in enumerate(CELLS):
        small, second = sizes[level], (sizes[level] * sizes[level + 1]) ** .5
        shapes = [(small, small), (second, second)]
        for ratio in RATIOS[level]:
            wide, narrow = small * ratio ** .5, small / ratio ** .5
            shapes += [(wide, narrow), (narrow, wide)]
        boxes += [((x + .5) * STEPS[level], (y + .5) * STEPS[level], w, h)
                  for y in range(cells) for x in range(cells) for w, h in shapes]
    return np.clip(np.array(boxes) / 300, 0, 1)


def corners(boxes):
    half = boxes[:, 2:] * boxes.dtype.type(.5)
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)


def overlaps(a, b):
    """Of each of a with b, in their type, as torchvision's box_iou has it."""
    shared = np.prod(np.maximum(np.minimum(a[:, 2:], b[2:]) - np.maximum(a[:, :2], b[:2]), 0), 1)
    return shared / (np.prod(a[:, 2:] - a[:, :2], 1) + np.prod(b[2:] - b[:2]) - shared)


def loss_of_made_up_outputs():
    n, a, c = torch.meshgrid(*map(torch.arange, (3, 6, 3)), indexing="ij")
    logits = (((7 * n + 3 * a + 5 * c) % 11) / 5 - 1).double().requires_grad_()
    n, a, k = torch.meshgrid(*map(torch.arange, (3, 6, 4)), indexing="ij")
    codes = (((n + 2 * a + 3 * k) % 7) / 4 - .75).double().requires_grad_()
    targets = (((2 * n + a + k) % 5) / 2 - 1).double()
    labels = torch.tensor([[0, 2, 0, 0, 0, 0], [0] * 6, [1, 0, 1, 2, 0, 0]])
    each = F.cross_entropy(logits.permute(0, 2, 1), labels, reduction="none")
    classes, boxes = [], []
    for image in range(3):
        own = labels[image] > 0
        ranked = sorted((a for a in range(6) if not own[a]), key=lambda a: (-each[image, a].item(), a))
        mined = ranked[:3 * int(own.sum())]
        print("mined", mined)
        classes.append(each[image][own].sum() + each[image][mined].sum())
        boxes.append(F.smooth_l1_loss(codes[image][own], targets[image][own], reduction="sum"))
    positives = (labels > 0).sum(1)
    by_batch = [sum(part) / positives.sum() for part in (classes, boxes)]
    by_image = sum((x + y) / max(p, 1) for x, y, p in zip(classes, boxes, positives.tolist())) / 3
    print("batch %.8f = %.8f + %.8f, image %.8f" % tuple(x.item() for x in (sum(by_batch), *by_batch, by_image)))
    for total in (sum(by_batch), by_image):
        for gradient in torch.autograd.grad(total, (logits, codes), retain_graph=True):
            print("  gradient", np.array2string(gradient[0, 1].numpy(), precision=9))


def nvidia_order():
    """Theirs: level, number within the cell, row, column."""
    theirs, first = [], 0
    for cells, ratios in zip(CELLS, RATIOS):
        count, per_cell = cells * cells, 2 + 2 * len(ratios)
        theirs += [first + i % per_cell * count + i // per_cell for i in range(count * per_cell)]
        first += count * per_cell
    print("NVIDIA's", {here: theirs[here] for here in (1, 5, 781, 8267, 8731)})
    print(anchors("coco300")[[theirs.index(i) for i in range(5)]])


def photographs(folder):
    for grid in SIZES:
        own = corners(anchors(grid).astype(np.float32))
        for file in sorted((folder / "Annotations").glob("*.xml")):
            root = xml.parse(file).getroot()
            sides = [float(root.find("size").findtext(key)) for key in ("width", "height")] * 2
            boxes = [[float(each.find("bndbox").findtext(key)) for key in ("xmin", "ymin", "xmax", "ymax")]
                     for each in root.findall("object")]
            all_overlaps = np.stack([overlaps(own, box) for box in np.array(boxes / np.array(sides), np.float32)])
            holder = np.where(all_overlaps.max(0) >= .5, all_overlaps.argmax(0), -1)
            for g, best in enumerate(all_overlaps.argmax(1)):
                holder[best] = g
            print(grid, file.stem, [int((holder == g).sum()) for g in range(len(boxes))])


def equal_overlaps():
    small, exact = np.array([.503, .503, .513, .515]), anchors("coco300")
    for what, own in (("f32", corners(exact.astype(np.float32))),
                      ("corners rounded from f64", corners(exact).astype(np.float32)), ("f64", corners(exact))):
        values = overlaps(own, small.astype(own.dtype))
        first = np.flatnonzero(values == values.max())
        print(f"{what}: {values.max():.9f} of {first.tolist()}, {values[2808]:.9f} of 2808")


loss_of_made_up_outputs()
nvidia_order()
equal_overlaps()
if len(sys.argv) > 1:
    photographs(Path(sys.argv[1]))
