"""Golden values of recurrent layers: tests/golden/recurrent.safetensors and recurrent_weights.safetensors.

    python recurrent.py             # needs torch 2.11, numpy and safetensors; writes the files beside itself
    python recurrent.py check FILE  # exits 1 unless torch loads FILE, strictly, as the same weights

The weights are the state dict of a ModuleDict of torch.nn.LSTM, GRU and RNN, its order in the metadata; x and the first
states come from the hash that tests/golden/hashed.h computes too. Stored are, of each case and in FP64, y, the last
states, and the gradients of sum(y * hash) + sum(h_n * hash) + sum(c_n * hash) by x, the first states and every weight.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from resnet import signed_unit

HERE = pathlib.Path(__file__).parent

# cell, steps, rows, inputs, units, and what differs from one layer in one direction with biases
CASES = {
    "lstm": dict(cell="lstm", sizes=[5, 3, 4, 19]),
    "lstm_states": dict(cell="lstm", sizes=[4, 2, 3, 5], layers=2, bidirectional=True, states=True),
    "lstm_projected": dict(cell="lstm", sizes=[4, 3, 3, 5], layers=2, projection=2, states=True),
    "lstm_projected_both": dict(cell="lstm", sizes=[6, 4, 3, 5], layers=2, bidirectional=True, projection=3, states=True,
                                lengths=[3, 6, 1, 5]),
    "lstm_lengths": dict(cell="lstm", sizes=[6, 4, 3, 5], layers=2, bidirectional=True, lengths=[2, 6, 1, 4]),
    "lstm_lengths_states": dict(cell="lstm", sizes=[5, 3, 2, 4], layers=3, states=True, lengths=[4, 2, 5]),
    "lstm_long_both": dict(cell="lstm", sizes=[35, 3, 2, 3], bidirectional=True, states=True, lengths=[10, 35, 18]),
    "lstm_bare": dict(cell="lstm", sizes=[3, 1, 2, 4], layers=2, bias=False),
    "lstm_step": dict(cell="lstm", sizes=[1, 1, 3, 4], bidirectional=True, states=True),
    "gru": dict(cell="gru", sizes=[5, 3, 4, 18]),
    "gru_states": dict(cell="gru", sizes=[4, 2, 3, 5], layers=2, bidirectional=True, states=True),
    "gru_lengths": dict(cell="gru", sizes=[6, 4, 3, 5], layers=2, bidirectional=True, states=True, lengths=[2, 6, 1, 4]),
    "gru_long_both": dict(cell="gru", sizes=[35, 3, 2, 3], bidirectional=True, states=True, lengths=[10, 35, 18]),
    "gru_bare": dict(cell="gru", sizes=[3, 1, 2, 4], layers=2, bias=False),
    "gru_step": dict(cell="gru", sizes=[1, 1, 3, 4], states=True),
    "tanh": dict(cell="rnn_tanh", sizes=[4, 2, 3, 5], layers=2, bidirectional=True, states=True),
    "tanh_lengths": dict(cell="rnn_tanh", sizes=[6, 4, 3, 5], layers=2, bidirectional=True, states=True,
                         lengths=[2, 6, 1, 4]),
    "relu": dict(cell="rnn_relu", sizes=[4, 2, 3, 5], layers=2, bidirectional=True, states=True),
    "relu_lengths": dict(cell="rnn_relu", sizes=[6, 4, 3, 5], layers=2, bidirectional=True, bias=False,
                         lengths=[2, 6, 1, 4]),
}


def unit(name, *shape):
    return torch.from_numpy(signed_unit(name, math.prod(shape)).astype(np.float64)).reshape(shape)


def module_of(name, case):
    _, _, inputs, units = case["sizes"]
    options = dict(num_layers=case.get("layers", 1), bidirectional=case.get("bidirectional", False),
                   bias=case.get("bias", True), dtype=torch.float64)
    if case["cell"] == "lstm":
        module = torch.nn.LSTM(inputs, units, proj_size=case.get("projection", 0), **options)
    elif case["cell"] == "gru":
        module = torch.nn.GRU(inputs, units, **options)
    else:
        module = torch.nn.RNN(inputs, units, nonlinearity=case["cell"].removeprefix("rnn_"), **options)
    with torch.no_grad():
        for parameter, value in module.named_parameters():
            # Exact in FP32, which the file of weights holds.
            value.copy_((0.75 * unit(f"{name}.{parameter}", *value.shape)).to(torch.float32))
    return module


def modules():
    return torch.nn.ModuleDict({name: module_of(name, case) for name, case in CASES.items()})


def values_of(name, case, module):
    steps, rows, inputs, units = case["sizes"]
    lstm = case["cell"] == "lstm"
    stacked = case.get("layers", 1) * (1 + case.get("bidirectional", False))
    leaves = {"x": unit(f"{name}.x", steps, rows, inputs).requires_grad_()}
    state = None
    if case.get("states"):
        leaves["h_0"] = unit(f"{name}.h_0", stacked, rows, case.get("projection", units)).requires_grad_()
        if lstm:
            leaves["c_0"] = unit(f"{name}.c_0", stacked, rows, units).requires_grad_()
        state = (leaves["h_0"], leaves["c_0"]) if lstm else leaves["h_0"]
    if "lengths" in case:
        packed = pack_padded_sequence(leaves["x"], torch.tensor(case["lengths"]), enforce_sorted=False)
        y, last = module(packed, state)
        y, _ = pad_packed_sequence(y, total_length=steps)
    else:
        y, last = module(leaves["x"], state)
    results = dict(zip(["y", "h_n", "c_n"], [y, *last] if lstm else [y, last]))
    loss = sum((value * unit(f"{name}.{key}", *value.shape)).sum() for key, value in results.items())
    leaves.update(module.named_parameters())
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    results.update((f"gradient.{key}", gradient) for key, gradient in zip(leaves, gradients))
    return {f"{name}.{key}": value.detach().contiguous() for key, value in results.items()}


def make():
    all_modules, results = modules(), {}
    for name, case in CASES.items():
        results.update(values_of(name, case, all_modules[name]))
    state = all_modules.state_dict()
    save_file({name: value.to(torch.float32) for name, value in state.items()}, HERE / "recurrent_weights.safetensors",
              {"torch": torch.__version__, "order": json.dumps(list(state))})
    save_file(results, HERE / "recurrent.safetensors", {"torch": torch.__version__, "cases": json.dumps(CASES)})
    print(len(CASES), "cases,", len(state), "weights")


def check(path):
    expected, found = modules(), modules().float()
    found.load_state_dict(load_file(path))
    same = all(torch.equal(value.double(), expected.state_dict()[name]) for name, value in found.state_dict().items())
    print("same" if same else "different")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(check(sys.argv[2]) if sys.argv[1:2] == ["check"] else make())
