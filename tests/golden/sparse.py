#!/usr/bin/env python3
"""Prints a weight over four steps, two of which do not touch it, with PyTorch 2.11: the values of
tests/optim/rows_test.cpp, "momentum and Adam, dense and lazy".

The weight is 1, its gradients are 1, none, none, 0.5, the learning rate is 0.1. Dense: no gradient is a gradient of 0.
Lazy: the step leaves the weight and its moments alone, while the count of steps behind Adam's bias correction goes on
(torch.optim.SparseAdam). Needs torch (CPU).
"""

import torch

GRADIENTS = [1.0, None, None, 0.5]


def dense(make):
    w = torch.tensor([1.0], requires_grad=True)
    optimizer = make([w])
    for g in GRADIENTS:
        w.grad = torch.tensor([g or 0.0])
        optimizer.step()
    return w.item()


def lazy_momentum(lr=0.1, momentum=0.9):
    w = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=lr, momentum=momentum)
    for g in GRADIENTS:
        w.grad = None if g is None else torch.tensor([g])  # torch skips parameters without a gradient
        optimizer.step()
    return w.item()


def lazy_adam():
    w = torch.ones(2, 1, requires_grad=True)
    optimizer = torch.optim.SparseAdam([w], lr=0.1)
    for g in GRADIENTS:
        row, value = (1, 1.0) if g is None else (0, g)  # some other row is touched
        w.grad = torch.sparse_coo_tensor([[row]], [[value]], (2, 1))
        optimizer.step()
    return w[0].item()


print("SGD with momentum: dense %.6f, lazy %.6f" % (dense(lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9)), lazy_momentum()))
print("Adam: dense %.6f, lazy %.6f" % (dense(lambda w: torch.optim.Adam(w, lr=0.1)), lazy_adam()))
