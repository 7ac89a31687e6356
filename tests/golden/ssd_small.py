"""Golden run of a small SSD: tests/golden/ssd_small.safetensors.

    python ssd_small.py       # needs torch 2.11 or later and safetensors; writes the file beside itself

Twenty steps of SGD on one batch of six images, one of which has no object. Body and heads are those of Tandem's
ssd_small; anchors, matching (an anchor takes the object it overlaps most, from 0.5 on; an object the anchor that
overlaps it most), mining (three negatives for a positive, those of the greatest loss, of equals the first) and the
loss (cross entropy and smooth L1 over the positives of the batch) are written down here. Weights and images come from
the hash of resnet.py, which tests/golden/ssd_small_test.cpp computes too. As in resnet.py, the stream of images is
taken whose activations stay farthest from the kink of relu in the first step.
"""
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from resnet import Kink, farthest, gradients_of, initialised, sampled, signed_unit
from runs import autocast, backward, is_low, store_runs

HERE = pathlib.Path(__file__).parent
STEPS, LR, MOMENTUM, DECAY = 20, 3e-4, 0.9, 5e-4
SIDE, WIDTH, CLASSES = 48, 8, 4  # the background is class 0
CELLS, SIZES, RATIO = (6, 3, 2), (0.1875, 0.3125, 0.5, 0.75), 2
SAMPLES = 512
# Corners in shares of the image, and the class, of each of the images.
OBJECTS = [[(.1, .15, .45, .6, 1), (.5, .4, .95, .9, 2), (.58, .06, .8, .31, 3)], [], [(.3, .25, .74, .82, 3)],
           [(.05, .5, .4, .97, 1), (.1, .1, .35, .3, 2)], [(.55, .1, .95, .6, 2)],
           [(.2, .2, .8, .9, 1), (.7, .05, .9, .25, 3)]]


def convolution(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for out in (WIDTH, 2 * WIDTH, 4 * WIDTH):
            layers += [*convolution(channels, out, 3, 2), *convolution(out, 2 * out, 3, 1)]
            channels = 2 * out
        self.features = nn.Sequential(*layers)
        self.extra = nn.ModuleList(
            nn.Sequential(*convolution(channels, channels // 2, 1, 1), *convolution(channels // 2, channels, 3, 2))
            for _ in CELLS[1:])

    def forward(self, x):
        maps = []
        for layers in (self.features, *self.extra):
            for layer in layers:
                x = Kink.relu(layer(x)) if isinstance(layer, nn.BatchNorm2d) else layer(x)
            maps.append(x)
        return maps


class Head(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.values = values
        self.module_list = nn.ModuleList(nn.Conv2d(8 * WIDTH, 4 * values, 3, padding=1) for _ in CELLS)

    def forward(self, maps):
        outputs = [head(x).permute(0, 2, 3, 1) for head, x in zip(self.module_list, maps)]
        return torch.cat([y.reshape(len(y), -1, self.values) for y in outputs], 1)


class Ssd(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = Body(), nn.Module()
        self.head.classification_head, self.head.regression_head = Head(CLASSES), Head(4)

    def forward(self, x):
        maps = self.backbone(x)
        return self.head.classification_head(maps), self.head.regression_head(maps)


def anchors():
    """[A,4] as (cx, cy, w, h), within the image: rows, columns, then two squares, a wide box and a high one."""
    boxes = []
    for cells, size, following in zip(CELLS, SIZES, SIZES[1:]):
        second, wide, narrow = (size * following) ** .5, size * RATIO ** .5, size / RATIO ** .5
        for cell in range(cells**2):
            centre = ((cell % cells + .5) / cells, (cell // cells + .5) / cells)
            boxes += [(*centre, *sides) for sides in ((size, size), (second, second), (wide, narrow), (narrow, wide))]
    return np.clip(np.array(boxes), 0, 1).astype(np.float32).astype(np.float64)


def overlaps(corners, boxes):
    """[G,A]; boxes [A,4] around their centres."""
    least = np.maximum(corners[:, None, :2], boxes[:, :2] - boxes[:, 2:] / 2)
    most = np.minimum(corners[:, None, 2:], boxes[:, :2] + boxes[:, 2:] / 2)
    both = np.prod(np.maximum(most - least, 0), 2)
    return both / (np.prod(corners[:, 2:] - corners[:, :2], 1)[:, None] + np.prod(boxes[:, 2:], 1) - both)


def match(objects, boxes, threshold=np.greater_equal):
    """Of each anchor the label and the code, 0 where it has no object. Neither rounding nor the order of the
    anchors decides: no overlap is near to 0.5, and none is as great as an object's greatest."""
    labels, codes = np.zeros(len(boxes), np.int64), np.zeros((len(boxes), 4))
    if not objects:
        return labels, codes
    rows = np.array(objects).astype(np.float32).astype(np.float64)
    iou = overlaps(rows[:, :4], boxes)
    assert np.abs(iou - .5).min() > 1e-5 and np.diff(np.sort(iou, 1)[:, -2:]).min() > 1e-5
    taken, best = iou.argmax(0), iou.max(0)
    for g, anchor in enumerate(iou.argmax(1)):
        taken[anchor], best[anchor] = g, 2
    has = threshold(best, .5)
    own = rows[taken[has]]
    labels[has] = own[:, 4]
    centres, sides = (own[:, :2] + own[:, 2:4]) / 2, own[:, 2:4] - own[:, :2]
    codes[has, :2] = (centres - boxes[has, :2]) / boxes[has, 2:] / .1
    codes[has, 2:] = np.log(sides / boxes[has, 2:]) / .2
    return labels, codes


LABELS, CODES = map(torch.from_numpy, map(np.stack, zip(*[match(objects, anchors()) for objects in OBJECTS])))


class Mining:
    """Which negatives count, and how near, relative, the last of them comes to the first that does not."""
    nearest = float("inf")

    @classmethod
    def mined(cls, losses, labels):
        chosen = torch.zeros_like(labels, dtype=torch.bool)
        for row, loss, own in zip(chosen, losses.detach(), labels):
            count = 3 * int((own > 0).sum())
            order = loss.masked_fill(own > 0, -1.).sort(descending=True, stable=True).indices
            row[order[:count]] = own[order[:count]] == 0
            if count:
                cls.nearest = min(cls.nearest, (1 - loss[order[count]] / loss[order[count - 1]]).item())
        return chosen


def losses_of(scores, codes):
    each = F.cross_entropy(scores.transpose(1, 2), LABELS, reduction="none")
    positive = LABELS > 0
    count = positive.sum()
    classes = each[positive | Mining.mined(each, LABELS)].sum() / count
    boxes = F.smooth_l1_loss(codes[positive], CODES[positive].to(codes.dtype), reduction="sum") / count
    return torch.stack([classes, boxes])


def images(stream):
    # Hashed channels last, as they lie in Tandem's memory.
    x = torch.from_numpy(signed_unit(f"images{stream}", len(OBJECTS) * SIDE**2 * 3))
    return x.reshape(len(OBJECTS), SIDE, SIDE, 3).permute(0, 3, 1, 2)


def train(stream, dtype):
    low = is_low(dtype)
    model = initialised(Ssd, torch.float32 if low else dtype)
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM, weight_decay=DECAY)
    x = images(stream).to(torch.float32 if low else dtype)
    values, losses = {}, []

    def outputs():
        with autocast(dtype):
            scores, codes = model(x)
        assert not low or scores.dtype == codes.dtype == dtype
        return (scores.float(), codes.float()) if low else (scores, codes)

    for step in range(STEPS):
        scores, codes = outputs()
        both = losses_of(scores, codes)
        backward(both.sum(), model, dtype)
        losses.append(both.tolist())
        if step == 0:
            values["scores"], values["codes"] = sampled("scores", scores, SAMPLES), sampled("codes", codes, SAMPLES)
            values.update(gradients_of(model))
        optimizer.step()
    for name, buffer in model.named_buffers():
        if buffer.dtype.is_floating_point:
            values["statistic/" + name] = sampled(name, buffer)
    model.eval()
    with torch.no_grad():
        for name, output in zip(("last scores", "last codes"), outputs()):
            values[name] = sampled(name, output, SAMPLES)
    return values, torch.tensor(losses, dtype=torch.float64)


if __name__ == "__main__":
    torch.set_num_threads(2)
    chosen, distance = farthest(Ssd, images)
    Mining.nearest = float("inf")
    train(chosen, torch.float64)
    store_runs(lambda dtype: train(chosen, dtype), HERE / "ssd_small.safetensors",
               {"stream": str(chosen), "distance from kinks": f"{distance:.1e}",
                "margin of mining": f"{Mining.nearest:.1e}", "positives": str((LABELS > 0).sum(1).tolist())})
