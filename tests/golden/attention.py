"""Values of attention and its gradients, from PyTorch in f64.

python attention.py > attention.h   (PyTorch 2.15; the committed attention.h was made so)

Number i of tensor k is sin(1.7 i + 0.9 k + 0.3), so that inputs need no copies. Each result has the gradient
cos(0.37 i). Sequences are [T,N,C]. A query without keys gives 0, in place of PyTorch's NaN.
"""
import math

import torch
import torch.nn.functional as F

TQ, TK, N, HEADS, D, A, C = 3, 4, 3, 2, 3, 5, 2
LENGTHS = [4, 0, 2]


def drawn(k, *shape):
    count = math.prod(shape)
    values = [math.sin(1.7 * i + 0.9 * k + 0.3) for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()


def seed_of(y):
    return torch.tensor([math.cos(0.37 * i) for i in range(y.numel())], dtype=torch.float64).reshape(y.shape)


def seen(lengths, causal):
    """[N,Tq,Tk]; causal aligned at the end."""
    mask = torch.ones(N, TQ, TK, dtype=torch.bool)
    if lengths:
        mask &= (torch.arange(TK)[None, :] < torch.tensor(LENGTHS)[:, None])[:, None, :]
    if causal:
        mask &= torch.ones(TQ, TK, dtype=torch.bool).tril(TK - TQ)
    return mask


def softmax(scores, mask):
    mask = mask.expand_as(scores)
    some = mask.any(-1, keepdim=True)
    # Where nothing is seen everything is, and is then multiplied by 0: no NaN, and no gradient.
    return torch.softmax(scores.masked_fill(~mask & some, -math.inf), -1) * mask * some


def masked(lengths, causal):
    x = drawn(0, N, TQ, TK)
    return [x], [softmax(3 * x, seen(lengths, causal))]


def dots(lengths, causal):
    q, k, v = drawn(0, TQ, N, HEADS * D), drawn(1, TK, N, HEADS * D), drawn(2, TK, N, HEADS * C)
    heads = lambda x: x.reshape(x.shape[0], N, HEADS, -1).permute(1, 2, 0, 3)
    mask = seen(lengths, causal)[:, None]
    y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), mask | ~mask.any(-1, keepdim=True))
    y = y * mask.any(-1, keepdim=True)
    return [q, k, v], [y.permute(2, 0, 1, 3).reshape(TQ, N, -1)]


def additive(lengths, causal, normalised):
    """As NVIDIA's GNMT: BahdanauAttention of DeepLearningExamples, PyTorch/Translation/GNMT."""
    q, k, value = drawn(0, TQ, N, A), drawn(1, TK, N, A), drawn(2, TK, N, C)
    v, g, b = drawn(3, A), drawn(4, 1), drawn(5, A)
    s = q.transpose(0, 1)[:, :, None] + k.transpose(0, 1)[:, None]  # [N,Tq,Tk,A]
    u = v
    if normalised:
        s = s + b
        u = v / v.norm() * g
    weights = softmax(torch.tanh(s).matmul(u), seen(lengths, causal))
    context = weights @ value.transpose(0, 1)
    inputs = [q, k, value, v] + ([g, b] if normalised else [])
    return inputs, [context.transpose(0, 1), weights.transpose(0, 1)]


def cases():
    for lengths, causal in ((0, 0), (1, 0), (0, 1), (1, 1)):
        yield "masked_softmax", lengths, causal, masked(lengths, causal)
        yield "scaled_dot_product_attention", lengths, causal, dots(lengths, causal)
        yield "additive_attention", lengths, causal, additive(lengths, causal, True)
        yield "additive_attention plain", lengths, causal, additive(lengths, causal, False)


def numbers(tensors):
    flat = torch.cat([t.detach().reshape(-1) for t in tensors]).tolist()
    assert all(map(math.isfinite, flat))
    return "{" + ", ".join(f"{v:.12g}" for v in flat) + "}"


def main():
    print("// Made by attention.py; see there.")
    print("// clang-format off")
    print("#pragma once\n\n#include <vector>\n\nnamespace golden {\n")
    print(f"inline constexpr int kQueries = {TQ}, kKeys = {TK}, kRows = {N}, kHeads = {HEADS}, kHeadSize = {D}, "
          f"kFeatures = {A}, kChannels = {C};")
    print(f"inline const std::vector<long> kLengths = {{{', '.join(map(str, LENGTHS))}}};\n")
    print("struct Attention {\n  const char* name;\n  bool lengths, causal;\n"
          "  std::vector<double> results, gradients;  // of all results, of all inputs, one after the other\n};\n")
    print("inline const std::vector<Attention> kAttention = {")
    for name, lengths, causal, (inputs, results) in cases():
        gradients = torch.autograd.grad(results, inputs, [seed_of(y) for y in results])
        print(f'    {{"{name}", {str(bool(lengths)).lower()}, {str(bool(causal)).lower()}, {numbers(results)}, '
              f"{numbers(gradients)}}},")
    print("};\n\n}  // namespace golden")


main()
