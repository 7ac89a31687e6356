"""Golden values of torchvision's SSD300 on VGG-16: tests/golden/ssd300_vgg16.safetensors.

    python ssd.py             # needs torch 2.11, torchvision 0.26 and safetensors; writes the file beside itself

Weights and images come from the hash of resnet.py, which tests/tasks/detection/torchvision_test.cpp computes too. Scores,
codes, loss and every gradient are computed in FP64, and how far PyTorch's own FP32 is from them goes into the metadata. Of a
few streams of images the one is taken whose mined negatives stand farthest apart from the next one: rounding mines others
where losses are nearly equal.
"""
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torchvision.models.detection import ssd300_vgg16
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import box_iou

from resnet import deviation, gradients_of, initial, sampled, signed_unit

HERE = pathlib.Path(__file__).parent
CLASSES, SIDE, STREAMS, SAMPLES = 91, 300, 4, 512
# Corners in shares of the image, and labels; those of the two images.
OBJECTS = [[(.25, .4, .75, .8, 17), (.1, .1, .2, .22, 1), (.05, .55, .35, .95, 90)], [(.4, .3, .9, .95, 44)]]


def make(dtype):
    model = ssd300_vgg16(weights=None, weights_backbone=None, num_classes=CLASSES)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial(name, tuple(parameter.shape))))
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model.to(dtype).train()


def images_of(stream, dtype):
    # Hashed channels last, as they lie in Tandem's memory.
    x = torch.from_numpy(signed_unit(f"images{stream}", 2 * SIDE * SIDE * 3).reshape(2, SIDE, SIDE, 3))
    return x.permute(0, 3, 1, 2).to(dtype)


def outputs_of(model, x):
    features = list(model.backbone(x).values())
    anchors = model.anchor_generator(ImageList(x, [(SIDE, SIDE)] * len(x)), features)
    return model.head(features), [a.to(x.dtype) for a in anchors]


def loss_of(model, head, anchors):
    targets, matched = [], []
    for rows, boxes in zip(OBJECTS, anchors):
        corners = torch.tensor([row[:4] for row in rows], dtype=boxes.dtype) * SIDE
        targets.append({"boxes": corners, "labels": torch.tensor([row[4] for row in rows])})
        matched.append(model.proposal_matcher(box_iou(corners, boxes)))
    return model.compute_loss(targets, head, anchors, matched), matched


def margin(head, matched):
    """The least gap, relative, between the last negative that is mined and the first that is not."""
    least = math.inf
    for logits, match, rows in zip(head["cls_logits"].detach(), matched, OBJECTS):
        labels = torch.where(match >= 0, torch.tensor([row[4] for row in rows])[match.clamp(min=0)], 0)
        loss = F.cross_entropy(logits, labels, reduction="none")
        negatives = loss[labels == 0].sort(descending=True).values
        k = 3 * int((labels > 0).sum())
        least = min(least, ((negatives[k - 1] - negatives[k]) / negatives[k]).item())
    return least


def found_values(found, side):
    return {"found/boxes": found["boxes"].double() / side, "found/scores": found["scores"].double(),
            "found/labels": found["labels"]}


def values_of(stream, dtype):
    model = make(dtype)
    x = images_of(stream, dtype)
    head, anchors = outputs_of(model, x)
    losses, _ = loss_of(model, head, anchors)
    (losses["bbox_regression"] + losses["classification"]).backward()
    values = {"loss": torch.stack([losses["classification"], losses["bbox_regression"]]).detach().double()}
    for name in ("cls_logits", "bbox_regression"):
        values[name] = sampled(name, head[name], SAMPLES)
    values.update(gradients_of(model))
    # Of the first image.
    with torch.no_grad():
        found = model.postprocess_detections({k: v[:1] for k, v in head.items()}, anchors[:1], [(SIDE, SIDE)])[0]
    values.update(found_values(found, SIDE))
    return values


def main():
    torch.set_num_threads(2)

    def margin_of(stream):
        model = make(torch.float64)
        with torch.no_grad():
            head, anchors = outputs_of(model, images_of(stream, torch.float64))
            return margin(head, loss_of(model, head, anchors)[1])

    margins = [margin_of(stream) for stream in range(STREAMS)]
    stream = margins.index(max(margins))
    exact, single = values_of(stream, torch.float64), values_of(stream, torch.float32)
    gradients = [k for k in exact if k.startswith("gradient/")]
    metadata = {
        "torch": torch.__version__,
        "stream": str(stream),
        "margin of mining": f"{max(margins):.1e}",
        "fp32 deviation of scores": f"{deviation(single['cls_logits'], exact['cls_logits']):.2e}",
        "fp32 deviation of codes": f"{deviation(single['bbox_regression'], exact['bbox_regression']):.2e}",
        "fp32 deviation of gradients, worst": f"{max(deviation(single[k], exact[k]) for k in gradients):.2e}",
    }
    print(metadata, exact["loss"].tolist(), margins, exact["found/scores"][[0, 99, 199]])
    save_file(exact, HERE / "ssd300_vgg16.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
