"""Golden values of ops that change the size of images: tests/golden/resampling.safetensors.

    python resampling.py      # needs torch 2.15, numpy and safetensors; writes the file beside itself

Transposed convolutions whose output padding reaches a stride, which PyTorch allows below the dilation: every such
(stride, dilation, output padding) of strides to 3 and dilations to 4 along one axis, with a plain, a strided and such
another axis beside it, with and without padding, in both orders of the axes. Upsampling by factors that give no whole
size, some of them the same, with recompute_scale_factor as PyTorch has it by default (False) and True.

Inputs come from the hash that tests/golden/hashed.h computes too, so only results are stored: those of FP64, then the
gradients of sum(y * hash) by every input, rounded to FP32. Layouts are PyTorch's.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from resnet import signed_unit

HERE = pathlib.Path(__file__).parent
STRIDES, DILATIONS = range(1, 4), range(1, 5)


def unit(name, *shape):
    return torch.from_numpy(signed_unit(name, int(np.prod(shape))).astype(np.float64)).reshape(shape)


def with_gradients(function, inputs):
    """y and the gradients of its product with a hash, flat, one after the other."""
    leaves = [tensor.requires_grad_() for tensor in inputs]
    y = function(*leaves)
    gradients = torch.autograd.grad((y * unit("gradient", *y.shape)).sum(), leaves)
    return torch.cat([tensor.detach().flatten() for tensor in (y, *gradients)]).to(torch.float32)


def transposed_cases():
    reaching = [(s, d, o) for s in STRIDES for d in DILATIONS for o in range(s, d)]
    cases = []
    for i, axis in enumerate(reaching):
        for other in [(1, 1, 0), (2, 1, 1), reaching[-1 - i]]:
            for padding in [0, 1]:
                for pair in [(axis, other), (other, axis)]:
                    stride, dilation, extra = (list(values) for values in zip(*pair))
                    case = {"stride": stride, "padding": [padding, 0], "dilation": dilation,
                            "output_padding": extra, "groups": 1 + i % 2}
                    if case not in cases:
                        cases.append(case)
    return cases


def upsample_cases():
    cases = []
    for size in [[5, 4], [3, 7]]:
        for scale in [[1.5, 2.3], [0.7, 1.3], [1.2, 1.1], [2.0, 0.5], [3.3, 0.45]]:
            for mode in ["nearest", "bilinear"]:
                for recompute in [False, True]:
                    cases.append({"size": size, "scale": scale, "mode": mode, "recompute": recompute})
    return cases


def main():
    results, metadata = {}, {"torch": torch.__version__}
    transposed = transposed_cases()
    for i, case in enumerate(transposed):
        inputs = [unit("x", 1, 2, 3, 2), unit("filter", 2, 2 // case["groups"], 2, 3), unit("bias", 2)]
        results[f"transposed{i}"] = with_gradients(lambda *leaves: F.conv_transpose2d(*leaves, **case), inputs)
    upsample = upsample_cases()
    for i, case in enumerate(upsample):
        options = {"scale_factor": case["scale"], "mode": case["mode"],
                   "recompute_scale_factor": case["recompute"],
                   "align_corners": False if case["mode"] == "bilinear" else None}
        results[f"upsample{i}"] = with_gradients(lambda x: F.interpolate(x, **options),
                                                 [unit("image", 2, 3, *case["size"])])
    metadata["transposed"], metadata["upsample"] = json.dumps(transposed), json.dumps(upsample)
    save_file(results, HERE / "resampling.safetensors", metadata)
    print(len(transposed), "transposed convolutions,", len(upsample), "upsamplings")


if __name__ == "__main__":
    main()
