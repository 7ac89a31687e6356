"""Golden values of small residual networks: tests/golden/{resnet20,basic,bottleneck}.safetensors.

    python resnet.py          # needs torch 2.11 and safetensors; writes the three files beside itself

Weights, images and labels come from an integer hash that tests/golden/resnet_test.cpp computes too, so only results are
stored. Everything is computed in FP64; the same in FP32 is run as well, and how far PyTorch's own FP32 is from FP64 goes
into the metadata: what a tolerance for another FP32 implementation has to allow for. An activation that rounding moves
across the kink of relu changes gradients by more than rounding does, so among a few streams of images the one whose
activations stay farthest from 0 in the first step is taken.
"""
import math
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
STEPS, LR, MOMENTUM, DECAY = 10, 0.01, 0.9, 1e-4
STREAMS = 40  # of images, tried for distance from kinks
SAMPLES = 64  # stored entries of each gradient


def hashed(stream, count):
    """uint32 words: lowbias32 of a counter, offset by the FNV-1a hash of the stream's name."""
    base = np.uint32(2166136261)
    with np.errstate(over="ignore"):
        for byte in stream.encode():
            base = (base ^ np.uint32(byte)) * np.uint32(16777619)
        x = np.arange(count, dtype=np.uint32) + base
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x7FEB352D)
        x ^= x >> np.uint32(15)
        x *= np.uint32(0x846CA68B)
        x ^= x >> np.uint32(16)
    return x


def signed_unit(stream, count):
    """float32 in [-1, 1), exact."""
    return (hashed(stream, count) >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)


def initial(name, shape):
    x = signed_unit(name, math.prod(shape)).reshape(shape)
    if len(shape) > 1:
        return np.float32(math.sqrt(6 / math.prod(shape[1:]))) * x
    if name.endswith("weight"):
        return np.float32(1) + np.float32(0.25) * x
    return np.float32(0.25) * x


class Kink:
    """Records how near to 0 the inputs of relu come."""
    nearest = math.inf

    @classmethod
    def relu(cls, x):
        cls.nearest = min(cls.nearest, x.detach().abs().min().item())
        return F.relu(x)


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(outputs)
        else:
            self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
        self.bottleneck = bottleneck
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(Kink.relu(self.bn1(self.conv1(x)))))
        if self.bottleneck:
            y = self.bn3(self.conv3(Kink.relu(y)))
        return Kink.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, inputs, width, blocks, bottleneck, large_stem):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 7, 2, 3, bias=False) if large_stem else \
            nn.Conv2d(inputs, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.large_stem = large_stem
        channels = width
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(Block(channels, width << stage, 2 if stage and not i else 1, bottleneck))
                channels = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.stages = len(blocks)
        self.fc = nn.Linear(channels, 10)

    def forward(self, x):
        x = Kink.relu(self.bn1(self.conv1(x)))
        if self.large_stem:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def chosen(name, count, samples=SAMPLES):
    """Which entries of a tensor are stored: all of a small one, else a hashed choice."""
    if count <= samples:
        return torch.arange(count)
    return torch.from_numpy((hashed("entries of " + name, samples) % np.uint32(count)).astype(np.int64))


def sampled(name, tensor, samples=SAMPLES):
    flat = tensor.detach().double().flatten()
    return flat[chosen(name, flat.numel(), samples)].clone()


def gradients_of(model):
    """"gradient_norm/NAME" and the stored entries "gradient/NAME" of every parameter."""
    values = {}
    for name, parameter in model.named_parameters():
        values["gradient_norm/" + name] = parameter.grad.detach().double().norm()
        values["gradient/" + name] = sampled(name, parameter.grad)
    return values


def images_of(stream, batch, image):
    # Hashed channels last, as they lie in Tandem's memory.
    x = torch.from_numpy(signed_unit(f"images{stream}", batch * math.prod(image)).reshape(batch, *image))
    labels = torch.from_numpy((hashed(f"labels{stream}", batch) % np.uint32(10)).astype(np.int64))
    return x.permute(0, 3, 1, 2), labels


def initialised(make, dtype):
    model = make().to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial(name, tuple(parameter.shape))))
    return model


def farthest(make, images):
    """The stream whose images(stream) keep the activations of make() farthest from kinks, and how far."""
    def distance(stream):
        Kink.nearest = math.inf
        initialised(make, torch.float64)(images(stream).double())
        return Kink.nearest
    distances = [distance(stream) for stream in range(STREAMS)]
    return distances.index(max(distances)), max(distances)


def train(make, stream, batch, image, dtype):
    model = initialised(make, dtype)
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM, weight_decay=DECAY)
    x, labels = images_of(stream, batch, image)
    values, losses = {}, []
    for step in range(STEPS):
        logits = model(x.to(dtype))
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            values["logits"] = logits.detach().double()
            values.update(gradients_of(model))
            for name, buffer in model.named_buffers():
                if buffer.dtype.is_floating_point:
                    values["statistic/" + name] = buffer.detach().double().clone()
        optimizer.step()
    values["losses"] = torch.tensor(losses, dtype=torch.float64)
    return values


def deviation(a, b):
    return ((a - b).norm() / b.norm()).item()


def main():
    torch.set_num_threads(2)
    cases = {
        "resnet20": (lambda: ResNet(1, 16, [3, 3, 3], False, False), 4, (28, 28, 1)),
        "basic": (lambda: ResNet(3, 8, [2, 2, 2, 2], False, True), 4, (64, 64, 3)),
        "bottleneck": (lambda: ResNet(3, 8, [2, 1, 1, 1], True, True), 4, (64, 64, 3)),
    }
    for name, (make, batch, image) in cases.items():
        stream, distance = farthest(make, lambda stream: images_of(stream, batch, image)[0])
        exact = train(make, stream, batch, image, torch.float64)
        single = train(make, stream, batch, image, torch.float32)
        gradients = [k for k in exact if k.startswith("gradient/")]
        metadata = {
            "torch": torch.__version__,
            "stream": str(stream),
            "distance from kinks": f"{distance:.1e}",
            "fp32 deviation of logits": f"{deviation(single['logits'], exact['logits']):.2e}",
            "fp32 deviation of gradients, worst": f"{max(deviation(single[k], exact[k]) for k in gradients):.2e}",
            "fp32 deviation of losses": " ".join(
                f"{abs(a - b) / b:.1e}" for a, b in zip(single["losses"].tolist(), exact["losses"].tolist())),
        }
        print(name, metadata, exact["losses"].tolist())
        save_file(exact, HERE / f"{name}.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
