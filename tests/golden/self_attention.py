"""Values of PyTorch's MultiheadAttention of a sequence on itself, and its gradients, in f64.

python self_attention.py > self_attention.h   (PyTorch 2.11; the committed self_attention.h was made so)

Number i of tensor k is sin(1.7 i + 0.9 k + 0.3)/2, tensor 0 being x [N,T,E], the others the parameters in the order of
the file. The result has the gradient cos(0.37 i).
"""
import torch

N, T, E, HEADS = 2, 5, 6, 2


def drawn(k, shape):
    count = torch.arange(shape.numel(), dtype=torch.float64)
    return (torch.sin(1.7 * count + 0.9 * k + 0.3) / 2).reshape(shape)


def numbers(tensors):
    return "{" + ", ".join(f"{v:.9g}" for t in tensors for v in t.detach().reshape(-1).tolist()) + "}"


def case(causal):
    layer = torch.nn.MultiheadAttention(E, HEADS, batch_first=True, dtype=torch.float64)
    parameters = [layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias]
    with torch.no_grad():
        for k, parameter in enumerate(parameters):
            parameter.copy_(drawn(k + 1, parameter.shape))
    x = drawn(0, torch.Size([N, T, E])).requires_grad_()
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1) if causal else None
    y, _ = layer(x, x, x, attn_mask=hidden, need_weights=False)
    seed = torch.cos(0.37 * torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)
    return numbers([y]), numbers(torch.autograd.grad(y, [x, *parameters], seed))


print("// Made by self_attention.py; see there.")
print("// clang-format off")
print("#pragma once\n\n#include <vector>\n\nnamespace golden {\n")
print(f"inline constexpr int kRows = {N}, kSteps = {T}, kFeatures = {E}, kHeads = {HEADS};\n")
print("struct SelfAttention {\n  bool causal;\n  std::vector<double> result, gradients;  // of x and of the parameters, in turn\n};\n")
print("inline const std::vector<SelfAttention> kSelfAttention = {")
for causal in (False, True):
    print(f"    {{{str(causal).lower()}, {', '.join(case(causal))}}},")
print("};\n\n}  // namespace golden")
