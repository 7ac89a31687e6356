"""Golden values of the loss of NVIDIA's SSD (DeepLearningExamples): tests/golden/nvidia_loss.safetensors.

    python nvidia_loss.py     # needs torch and safetensors; writes the file beside itself

SSD300's 8732 anchors of COCO and 81 classes as NVIDIA's program has them: of a level all cells of one anchor, row by
row, then those of the next; outputs [N,classes,A] and [N,4,A]. An anchor has an object that it overlaps by more than
0.5, and the anchor that overlaps an object most has that one. Of an image: cross entropy of the positives and of
three times as many negatives, those of the greatest loss, and smooth L1 of the positives, over how many there are; 0
where there are none. The loss is the mean over the images. Outputs come from the hash of resnet.py, in NVIDIA's
order; tests/golden/nvidia_loss_test.cpp puts them into Tandem's. Everything is computed in FP64 from anchors in FP32;
how far FP32 is from it goes into the metadata.
"""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from resnet import deviation, hashed, signed_unit
from ssd_small import match

HERE = pathlib.Path(__file__).parent
CLASSES, SIDE, SAMPLES = 81, 300, 64
CELLS, STEPS = (38, 19, 10, 5, 3, 1), (8, 16, 32, 64, 100, 300)
SIZES, RATIOS = (21, 45, 99, 153, 207, 261, 315), ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
# Corners in shares of the image, and the class; the first two of the last image want the same anchor, the third one
# overlaps none by 0.5.
OBJECTS = [[(.25, .4, .75, .8, 17), (.1, .105, .2, .22, 1), (.05, .55, .35, .95, 80)], [],
           [(.3, .3, .62, .62, 5), (.31, .3, .63, .62, 44), (.13, .68, .47, .72, 9)]]


def anchors():
    boxes = []
    for cells, step, size, following, ratios in zip(CELLS, STEPS, SIZES, SIZES[1:], RATIOS):
        sides = [(size, size), ((size * following) ** .5,) * 2]
        for ratio in ratios:
            wide, narrow = size * ratio ** .5, size / ratio ** .5
            sides += [(wide, narrow), (narrow, wide)]
        boxes += [((x + .5) * step, (y + .5) * step, *each)
                  for each in sides for y in range(cells) for x in range(cells)]
    return np.clip(np.array(boxes) / SIDE, 0, 1).astype(np.float32).astype(np.float64)


def losses_of(scores, codes, labels, targets):
    """Both parts for each image, [N]; and which anchors count."""
    each = F.cross_entropy(scores, labels, reduction="none")
    positive = labels > 0
    count = positive.sum(1)
    rank = each.detach().masked_fill(positive, 0).argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    counts = positive | (rank < 3 * count[:, None])
    share = (count > 0) / count.clamp(min=1)
    classes = (each * counts).sum(1) * share
    boxes = (F.smooth_l1_loss(codes, targets, reduction="none").sum(1) * positive).sum(1) * share
    return classes, boxes, counts


def values_of(dtype):
    n, boxes = len(OBJECTS), anchors()
    labels, targets = zip(*[match(objects, boxes, np.greater) for objects in OBJECTS])
    labels, targets = torch.from_numpy(np.stack(labels)), torch.from_numpy(np.stack(targets)).to(dtype).transpose(1, 2)

    def output(stream, scale, channels):
        x = np.float32(scale) * signed_unit(stream, n * channels * len(boxes)).reshape(n, channels, len(boxes))
        return torch.from_numpy(x).to(dtype).requires_grad_()

    scores, codes = output("scores", 4, CLASSES), output("codes", 2, 4)
    classes, of_boxes, counts = losses_of(scores, codes, labels, targets)
    (classes + of_boxes).mean().backward()
    image, anchor = counts.nonzero(as_tuple=True)
    some = torch.from_numpy((hashed("anchors", SAMPLES) % np.uint32(len(boxes))).astype(np.int64))
    return {
        "losses": torch.stack([classes, of_boxes], 1).detach(),
        "anchors": torch.from_numpy(boxes)[some].float(),
        "image": image, "anchor": anchor, "label": labels[image, anchor],
        "gradient/scores": scores.grad[image, :, anchor].float(),
        "gradient/codes": codes.grad[image, :, anchor].float(),
        "gradient_norm/scores": scores.grad.flatten(1).norm(dim=1),
        "gradient_norm/codes": codes.grad.flatten(1).norm(dim=1),
    }


def main():
    torch.set_num_threads(2)
    exact, single = values_of(torch.float64), values_of(torch.float32)
    assert torch.equal(exact["anchor"], single["anchor"])
    metadata = {"torch": torch.__version__}
    for name in ("losses", "gradient/scores", "gradient/codes"):
        metadata["fp32 deviation of " + name] = f"{deviation(single[name].double(), exact[name].double()):.1e}"
    print(metadata, exact["losses"], (exact["label"] > 0).sum(), len(exact["label"]), exact["gradient_norm/scores"])
    save_file(exact, HERE / "nvidia_loss.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
