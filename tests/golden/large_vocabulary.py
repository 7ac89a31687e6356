"""Golden values of softmaxes over large vocabularies.

    python large_vocabulary.py      # needs torch 2.11, numpy and safetensors; writes large_vocabulary.safetensors

Adaptive softmax: outputs, full log-probabilities, predictions and all gradients of the mean loss, in FP64, from
torch.nn.AdaptiveLogSoftmaxWithLoss; weights and inputs come from the hash that tests/golden/hashed.h computes too.
Sampled softmax: the loss of TensorFlow's nn_impl.sampled_softmax_loss by its formulas in NumPy, with gradients by
torch's autograd of the same written out row by row.
"""
import json
import math
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

from resnet import signed_unit

HERE = pathlib.Path(__file__).parent

ADAPTIVE = {
    "two": dict(inputs=8, classes=12, cutoffs=[3, 6], div_value=2.0, head_bias=True, rows=9),
    "one": dict(inputs=6, classes=9, cutoffs=[4], div_value=4.0, head_bias=False, rows=7),
    "uneven": dict(inputs=20, classes=40, cutoffs=[1, 7, 39], div_value=1.5, head_bias=False, rows=33),
    "rare": dict(inputs=16, classes=30, cutoffs=[10, 20], div_value=4.0, head_bias=True, rows=5, targets=[9, 25, 0, 29, 20]),
}

# S different candidates after so many tries, or S with replacement.
SAMPLED = {
    "unique": dict(inputs=6, classes=20, rows=7, candidates=[0, 5, 2, 11], tries=6, unique=True, bias=True),
    "repeated": dict(inputs=5, classes=10, rows=6, candidates=[0, 7, 0, 2, 1], tries=5, unique=False, bias=False),
}


def unit(name, *shape):
    return torch.from_numpy(signed_unit(name, math.prod(shape)).astype(np.float64)).reshape(shape)


def targets_of(name, case):
    if "targets" in case:
        return torch.tensor(case["targets"])
    return ((unit(f"{name}.target", case["rows"]) + 1) * 0.5 * case["classes"]).floor().long()


def adaptive(name, case):
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(case["inputs"], case["classes"], case["cutoffs"], case["div_value"],
                                                 case["head_bias"]).double()
    with torch.no_grad():
        for parameter, value in module.named_parameters():
            value.copy_((2 * unit(f"{name}.{parameter}", *value.shape)).float())
    x = unit(f"{name}.x", case["rows"], case["inputs"]).requires_grad_()
    target = targets_of(name, case)
    output, loss = module(x, target)
    leaves = {"x": x, **dict(module.named_parameters())}
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    values = {"target": target, "output": output, "loss": loss, "log_prob": module.log_prob(x), "predict": module.predict(x)}
    values.update((f"gradient.{key}", torch.zeros_like(leaves[key]) if g is None else g) for key, g in zip(leaves, gradients))
    values.update((f"weight.{key}", value) for key, value in module.named_parameters())
    return values


def probability(k, classes):
    return math.log((k + 2) / (k + 1)) / math.log(classes + 1)


def log_count(k, case):
    p = probability(k, case["classes"])
    if case["unique"]:
        return math.log(-math.expm1(case["tries"] * math.log1p(-p)))
    return math.log(len(case["candidates"]) * p)


def sampled(name, case):
    weight = unit(f"{name}.weight", case["classes"], case["inputs"]).requires_grad_()
    bias = unit(f"{name}.bias", case["classes"]).requires_grad_()
    x = unit(f"{name}.x", case["rows"], case["inputs"]).requires_grad_()
    target = targets_of(name, case)
    losses = []
    for row, y in zip(x, target.tolist()):
        ids = [y] + [k for k in case["candidates"] if k != y]
        logits = torch.stack([row @ weight[k] + case["bias"] * bias[k] - log_count(k, case) for k in ids])
        losses.append(torch.logsumexp(logits, 0) - logits[0])
    loss = torch.stack(losses).mean()
    values = {"target": target, "loss": loss, "candidate": torch.tensor(case["candidates"]),
              "log_count": torch.tensor([log_count(k, case) for k in case["candidates"]], dtype=torch.float64),
              "target_log_count": torch.tensor([log_count(k, case) for k in target.tolist()], dtype=torch.float64)}
    leaves = {"x": x, "weight": weight} | ({"bias": bias} if case["bias"] else {})
    values.update((f"gradient.{key}", g) for key, g in zip(leaves, torch.autograd.grad(loss, list(leaves.values()))))
    return values


def main():
    values = {}
    for cases, make in ((ADAPTIVE, adaptive), (SAMPLED, sampled)):
        for name, case in cases.items():
            values.update((f"{name}.{key}", value.detach().contiguous()) for key, value in make(name, case).items())
    save_file(values, HERE / "large_vocabulary.safetensors",
              {"torch": torch.__version__, "adaptive": json.dumps(ADAPTIVE), "sampled": json.dumps(SAMPLED)})
    print(len(values), "values")


if __name__ == "__main__":
    main()
