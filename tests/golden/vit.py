"""Golden values of a small Vision Transformer: tests/golden/vit.safetensors.

    python vit.py             # needs torch 2.15, torchvision 0.29 and safetensors; writes the file beside itself

The model is torchvision's VisionTransformer. It learns one batch for ten steps of SGD with clipping. Weights, images and
labels come from the hash of resnet.py, which tests/golden/vit_test.cpp computes too. Everything is computed in FP64; losses of
FP32 and of torch.autocast are stored beside those of FP64, and how far PyTorch's own runs are from FP64 goes into the
metadata, beside the numbers of parameters of the usual sizes.
"""
import pathlib

import torch
import torch.nn.functional as F
import torchvision
from torchvision.models import VisionTransformer

from resnet import gradients_of, images_of, initialised
from runs import autocast, backward, is_low, store_runs

HERE = pathlib.Path(__file__).parent
STEPS, LR, CLIP = 10, 0.02, 1.0
BATCH, SIDE, PATCH, LAYERS, WIDTH, HEADS, INNER, CLASSES = 4, 12, 4, 2, 16, 2, 24, 10


def small():
    return VisionTransformer(image_size=SIDE, patch_size=PATCH, num_layers=LAYERS, num_heads=HEADS, hidden_dim=WIDTH,
                             mlp_dim=INNER, num_classes=CLASSES)


def train(dtype):
    lowered = is_low(dtype)
    model = initialised(small, torch.float32 if lowered else dtype).train()
    optimizer = torch.optim.SGD(model.parameters(), LR)
    x, labels = images_of("", BATCH, (SIDE, SIDE, 3))
    values, losses = {}, []
    for step in range(STEPS):
        with autocast(dtype):
            logits = model(x if lowered else x.to(dtype))
        loss = F.cross_entropy(logits.float() if lowered else logits, labels)
        backward(loss, model, dtype)
        losses.append(loss.item())
        if step == 0:
            values["logits"] = logits.detach().double()
            values.update(gradients_of(model))
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    return values, torch.tensor(losses, dtype=torch.float64)


def parameters(width, layers, heads):
    with torch.device("meta"):
        model = VisionTransformer(224, 16, layers, heads, width, 4 * width)
    return sum(parameter.numel() for parameter in model.parameters())


def main():
    notes = {"torchvision": torchvision.__version__}
    for name, sizes in {"Ti": (192, 12, 3), "S": (384, 12, 6), "B": (768, 12, 12), "L": (1024, 24, 16)}.items():
        notes[f"parameters of ViT-{name}/16"] = str(parameters(*sizes))
    store_runs(train, HERE / "vit.safetensors", notes)


if __name__ == "__main__":
    main()
