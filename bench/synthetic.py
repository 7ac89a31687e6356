"""Synthetic inputs of both sides of `./run bench`: see bench/synthetic.h."""

import torch

STEPS = (0.8566748838545029, 0.733891856627126, 0.6287067210378087, 0.5385972572236101)


def points(count):
    """[count,4] in FP64."""
    return torch.arange(1, count + 1, dtype=torch.float64)[:, None] * torch.tensor(STEPS, dtype=torch.float64) % 1


def targets(images, objects, classes, side):
    """Targets for torchvision's detectors: corners in pixels, labels from 1."""
    place = points(images * objects)
    corner = 0.6 * place[:, :2]
    boxes = side * torch.cat([corner, corner + 0.1 + 0.3 * place[:, 2:]], 1).float()
    labels = 1 + torch.arange(len(boxes)) % (classes - 1)
    return [{"boxes": b, "labels": l} for b, l in zip(boxes.split(objects), labels.split(objects))]
