"""Golden values of torchvision's SSDLite320 on MobileNetV3-Large: tests/golden/ssdlite.safetensors.

    python ssdlite.py         # needs torch 2.11, torchvision 0.26 and safetensors; writes the file beside itself

Weights, running statistics, images and boxes come from the hash of resnet.py, which tests/golden/ssdlite_test.cpp
computes too. Stored are, in evaluation, logits and codes, both parts of torchvision's loss and its gradients, and
what is found; and the running statistics after a step of training. Everything is computed in FP64; how far PyTorch's
own FP32 is from it goes into the metadata. The names of the whole state dict, with 91 classes, are in the metadata as
well.
"""
import pathlib

import numpy as np
import torch
import torchvision
from safetensors.torch import save_file
from torchvision.models.detection.image_list import ImageList

from resnet import deviation, gradients_of, initial, sampled, signed_unit
from ssd import SAMPLES, found_values

HERE = pathlib.Path(__file__).parent
BATCH, SIDE, CLASSES = 2, 320, 4
# Of each image: x1, y1, x2, y2 in shares of its sides, and the class.
BOXES = [[[0.1, 0.15, 0.45, 0.6, 1], [0.5, 0.4, 0.95, 0.9, 2]], [[0.3, 0.25, 0.7, 0.8, 3]]]


def network(classes):
    return torchvision.models.detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=classes)


def initialised(dtype):
    model = network(CLASSES)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial(name, tuple(parameter.shape))))
        for name, buffer in model.named_buffers():
            if buffer.dtype.is_floating_point:
                x = np.float32(0.25) * signed_unit(name, buffer.numel())
                buffer.copy_(torch.from_numpy(x + np.float32(name.endswith("running_var"))))
    return model.to(dtype).eval()


def images():
    x = signed_unit("images", BATCH * SIDE * SIDE * 3).reshape(BATCH, SIDE, SIDE, 3)
    return torch.from_numpy(x).permute(0, 3, 1, 2)


def loss_of(model, outputs, anchors, x):
    targets = [{"boxes": SIDE * torch.tensor(boxes, dtype=x.dtype)[:, :4],
                "labels": torch.tensor(boxes)[:, 4].long()} for boxes in BOXES]
    matches = [model.proposal_matcher(torchvision.ops.box_iou(target["boxes"], own))
               for target, own in zip(targets, anchors)]
    return model.compute_loss(targets, outputs, anchors, matches)


def values_of(dtype):
    model, values = initialised(dtype), {}
    x = images().to(dtype)
    maps = list(model.backbone(x).values())
    outputs = model.head(maps)
    anchors = model.anchor_generator(ImageList(x, [(SIDE, SIDE)] * BATCH), maps)
    losses = loss_of(model, outputs, anchors, x)
    sum(losses.values()).backward()
    values["scores"] = sampled("scores", outputs["cls_logits"], SAMPLES)
    values["codes"] = sampled("codes", outputs["bbox_regression"], SAMPLES)
    for name, loss in losses.items():
        values["loss/" + name] = loss.detach().double()
    values.update(gradients_of(model))
    with torch.no_grad():
        # Of the first image.
        found = model.postprocess_detections({name: each[:1] for name, each in outputs.items()}, anchors[:1],
                                             [(SIDE, SIDE)])[0]
        values.update(found_values(found, SIDE))
        model.train().backbone(x)
    for name, buffer in model.named_buffers():
        if buffer.dtype.is_floating_point and name.startswith("backbone"):
            values["statistic/" + name] = sampled(name, buffer)
    return values


def main():
    torch.set_num_threads(2)
    exact, single = values_of(torch.float64), values_of(torch.float32)
    whole = network(91)
    metadata = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "parameters": str(sum(p.numel() for p in whole.parameters())),
        "state": " ".join(f"{name}:{'x'.join(map(str, v.shape))}" for name, v in whole.state_dict().items()),
    }
    for kind in ("scores", "codes", "loss", "gradient/", "gradient_norm/", "statistic/"):
        metadata["fp32 deviation of " + kind.strip("/") + ", worst"] = (
            f"{max(deviation(single[k].double(), exact[k].double()) for k in exact if k.startswith(kind)):.1e}")
    for name, value in metadata.items():
        print(name, value[:200])
    print({k: exact[k].item() for k in exact if k.startswith("loss")}, exact["scores"].std(), exact["codes"].std(),
          len(exact))
    stored = {k: v.float() if v.is_floating_point() else v for k, v in exact.items()}  # a smaller file
    save_file(stored, HERE / "ssdlite.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
