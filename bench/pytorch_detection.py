"""SSD of `./run bench` in PyTorch: torchvision's heads, anchors, matching and loss on two other bodies: a small one, and that of
NVIDIA's DeepLearningExamples."""

import collections
import sys

import torch
from torch import nn
from torchvision.models import resnet34
from torchvision.models.detection import ssdlite320_mobilenet_v3_large
from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.ssd import SSD

from synthetic import targets


class Batched(nn.Module):
    """Replaces torchvision's resizing and normalising, which the loader has done."""

    def forward(self, images, targets=None):
        return ImageList(images, [tuple(images.shape[-2:])] * len(images)), targets


class Body(nn.Module):
    """A first feature map, and one more after each further block."""

    def __init__(self, first, further, out_channels):
        super().__init__()
        self.first, self.further, self.out_channels = first, nn.ModuleList(further), out_channels

    def forward(self, x):
        maps = [self.first(x)]
        for block in self.further:
            maps.append(block(maps[-1]))
        return collections.OrderedDict((str(level), each) for level, each in enumerate(maps))


def conv_norm(inputs, outputs, kernel, stride=1, padding=None):
    padding = kernel // 2 if padding is None else padding
    return [nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def ssd_small(classes, side, width=16, channels=1):
    layers, inputs = [], channels
    for outputs in (width, 2 * width, 4 * width):
        layers += conv_norm(inputs, outputs, 3, 2) + conv_norm(outputs, 2 * outputs, 3)
        inputs = 2 * outputs
    further = [nn.Sequential(*conv_norm(inputs, inputs // 2, 1), *conv_norm(inputs // 2, inputs, 3, 2)) for _ in range(2)]
    anchors = DefaultBoxGenerator([[2]] * 3, scales=[0.1875, 0.3125, 0.5, 0.75])
    return detector(Body(nn.Sequential(*layers), further, [inputs] * 3), anchors, classes, side)


COCO_300 = [21, 45, 99, 153, 207, 261, 315]  # pixels


def ssd300_resnet34(classes, side=300):
    body = resnet34()
    body.layer3[0].conv1.stride = body.layer3[0].downsample[0].stride = (1, 1)
    trunk = nn.Sequential(body.conv1, body.bn1, body.relu, body.maxpool, body.layer1, body.layer2, body.layer3)
    further, channels = [], [256]
    for inner, outputs, stride, padding in ((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0)):
        further.append(nn.Sequential(*conv_norm(channels[-1], inner, 1), *conv_norm(inner, outputs, 3, stride, padding)))
        channels.append(outputs)
    ratios = [[2], [2, 3], [2, 3], [2, 3], [2], [2]]
    anchors = DefaultBoxGenerator(ratios, scales=[size / 300 for size in COCO_300], steps=[8, 16, 32, 64, 100, 300])
    return detector(Body(trunk, further, channels), anchors, classes, side)


def ssdlite320(classes, side):
    return prepared(ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=classes))


def detector(body, anchors, classes, side):
    return prepared(SSD(body, anchors, (side, side), classes))


def prepared(model):
    model.transform = Batched()
    return model.to(memory_format=torch.channels_last)


# Network, number of parameters in `tandem summary`, images, classes including the background, objects per image.
DETECTORS = {"ssd_small": (ssd_small, 515_812, (32, 1, 128, 128), 11, 4),
             "ssd_small_300": (ssd_small, 515_812, (8, 1, 300, 300), 11, 4),
             "ssd300_resnet34": (ssd300_resnet34, 19_975_222, (8, 3, 300, 300), 81, 7),
             "ssdlite320": (ssdlite320, 3_301_460, (8, 3, 320, 320), 81, 7)}


def detection(name, autocast, optimized, batch=None, objects=None):
    """A step and its number of images; `batch` and `objects` override the table."""
    make, parameters, shape, classes, its_objects = DETECTORS[name]
    shape, objects = (batch or shape[0], *shape[1:]), objects or its_objects
    model = make(classes, shape[-1])
    if (own := sum(each.numel() for each in model.parameters())) != parameters:
        sys.exit(f"pytorch_worker: {name} has {own} parameters, Tandem's {parameters}")
    images = torch.randn(shape).contiguous(memory_format=torch.channels_last)
    truth = targets(shape[0], objects, classes, shape[-1])
    model, optimizer = optimized(model, torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, weight_decay=5e-4, fused=True))

    def step():
        with autocast():
            loss = sum(model(images, truth).values())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return [loss]

    return step, shape[0]
