"""Golden values of a small U-Net: tests/golden/unet.safetensors.

    python unet.py            # needs torch 2.11 or later and safetensors; writes the file beside itself

The network is that of milesial/Pytorch-UNet (transposed convolutions) with as many levels as asked for, the loss cross
entropy plus Dice, where pixels of 255 count for nothing. Weights, images and masks come from the hash of resnet.py, which
tests/golden/unet_test.cpp computes too. Everything is computed in FP64; the losses of FP32 and of torch.autocast on the
CPU in BF16 and FP16 (with a fixed loss scale) are stored beside those of FP64, and how far PyTorch's own runs are from
FP64 goes into the metadata. As in resnet.py, the stream of images is taken whose activations stay farthest from the kinks
of relu and of max pooling in the first step.
"""
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

from resnet import Kink, deviation, farthest, gradients_of, hashed, initialised, signed_unit
from runs import autocast, backward, is_low

HERE = pathlib.Path(__file__).parent
STEPS, LR, MOMENTUM = 10, 0.01, 0.9
BATCH, EXTENT, CLASSES, WIDTH, LEVELS = 2, 32, 11, 16, 3
EPSILON, IGNORE = 1e-6, 255


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x):
        for layer in self.double_conv:
            x = Kink.relu(x) if isinstance(layer, nn.ReLU) else layer(x)
        return x


class MaxPool(nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        if x.dtype == torch.float64:  # nearness of a draw; among zeros it does not matter
            windows = x.detach().reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 2, 4, 3, 5).reshape(-1, 4)
            first, second = windows.topk(2, dim=1).values.T
            drawn = (first - second)[first > 0]
            Kink.nearest = min(Kink.nearest, drawn.min().item())
        return F.max_pool2d(x, 2)


class Down(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.maxpool_conv = nn.Sequential(MaxPool(), DoubleConv(inputs, outputs))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, inputs // 2, 2, 2)
        self.conv = DoubleConv(inputs, outputs)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class OutConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, inputs=1, classes=CLASSES, width=WIDTH, levels=LEVELS):
        super().__init__()
        self.levels = levels
        self.inc = DoubleConv(inputs, width)
        for level in range(levels):
            setattr(self, f"down{level + 1}", Down(width << level, width << (level + 1)))
        for level in range(levels):
            channels = width << (levels - level)
            setattr(self, f"up{level + 1}", Up(channels, channels // 2))
        self.outc = OutConv(width, classes)

    def forward(self, x):
        skips = [self.inc(x)]
        for level in range(self.levels):
            skips.append(getattr(self, f"down{level + 1}")(skips[-1]))
        x = skips.pop()
        for level in range(self.levels):
            x = getattr(self, f"up{level + 1}")(x, skips.pop())
        return self.outc(x)


def loss_of(logits, masks):
    """Cross entropy over the pixels that count, plus 1 - Dice, the mean over classes of the whole batch."""
    counts = masks != IGNORE
    truth = F.one_hot(torch.where(counts, masks, 0), CLASSES).permute(0, 3, 1, 2) * counts[:, None]
    p = logits.softmax(1) * counts[:, None]
    axes = (0, 2, 3)
    dice = (2 * (p * truth).sum(axes) + EPSILON) / (p.sum(axes) + truth.sum(axes) + EPSILON)
    return F.cross_entropy(logits, masks, ignore_index=IGNORE) + 1 - dice.mean()


def data(stream):
    """Images [BATCH,1,EXTENT,EXTENT] and masks in patches of 4×4 pixels, an eleventh of which is ignored."""
    x = torch.from_numpy(signed_unit(f"images{stream}", BATCH * EXTENT**2)).reshape(BATCH, 1, EXTENT, EXTENT)
    patches = (hashed(f"masks{stream}", BATCH * (EXTENT // 4) ** 2) % np.uint32(CLASSES + 1)).astype(np.int64)
    patches[patches == CLASSES] = IGNORE
    patches = patches.reshape(BATCH, EXTENT // 4, EXTENT // 4)
    return x, torch.from_numpy(patches.repeat(4, 1).repeat(4, 2))


def train(stream, dtype):
    lowered = is_low(dtype)
    model = initialised(UNet, torch.float32 if lowered else dtype)
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM)
    x, masks = data(stream)
    values, losses = {}, []
    for step in range(STEPS):
        with autocast(dtype):
            logits = model(x if lowered else x.to(dtype))
        loss = loss_of(logits.float() if lowered else logits, masks)
        backward(loss, model, dtype)
        losses.append(loss.item())
        if step == 0:
            values["logits"] = logits.detach().double().permute(0, 2, 3, 1).contiguous()
            values.update(gradients_of(model))
            for name, buffer in model.named_buffers():
                if buffer.dtype.is_floating_point:
                    values["statistic/" + name] = buffer.detach().double().clone()
        optimizer.step()
    return values, torch.tensor(losses, dtype=torch.float64)


def main():
    torch.set_num_threads(2)
    stream, distance = farthest(UNet, lambda stream: data(stream)[0])
    exact, losses = train(stream, torch.float64)
    metadata = {"torch": torch.__version__, "stream": str(stream), "distance from kinks": f"{distance:.1e}"}
    stored = {**exact, "losses f64": losses}
    for name, dtype in {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}.items():
        values, own = train(stream, dtype)
        stored["losses " + name] = own
        gradients = max(deviation(values[k], exact[k]) for k in exact if k.startswith("gradient/"))
        metadata[name] = (f"logits {deviation(values['logits'], exact['logits']):.1e}, gradients {gradients:.1e}, "
                          "losses " + " ".join(f"{off:.0e}" for off in ((own - losses).abs() / losses).tolist()))
    metadata["parameters of 1 channel, 11 classes, width 16, 3 levels"] = str(
        sum(p.numel() for p in UNet().parameters()))
    metadata["parameters of 3 channels, 2 classes, width 64, 4 levels"] = str(
        sum(p.numel() for p in UNet(3, 2, 64, 4).parameters()))
    for item in metadata.items():
        print(*item)
    print(losses.tolist())
    save_file(stored, HERE / "unet.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
