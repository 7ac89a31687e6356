"""Golden values of encoder-decoders: tests/golden/encoder_decoder.safetensors.

    python encoder_decoder.py       # needs torch 2.11, numpy and safetensors; writes the file beside itself

The network is GNMT v2's (Wu et al. 2016) in torch.nn.LSTM, Embedding and Linear, with NVIDIA's names of parameters.
Weights and words come from the hash that tests/golden/hashed.h computes too. For each case, the file has in FP64 the
scores, the attention, the loss with smoothed labels, the gradient by every parameter, and in the metadata the cases and
the names of the parameters.
"""
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from resnet import hashed, signed_unit

HERE = pathlib.Path(__file__).parent
SMOOTHING, NO_TARGET = 0.1, -1

CASES = {
    "normalised": dict(attention="bahdanau_normalised", words=[7, 9], embedding=4, units=5, layers=[3, 3],
                       source=[3, 5, 1], target=[4, 2, 3]),
    "bahdanau": dict(attention="bahdanau", words=[6, 6], embedding=3, units=4, layers=[2, 2], source=[4, 2],
                     target=[1, 5]),
    "general": dict(attention="luong_general", words=[5, 8], embedding=3, units=4, layers=[1, 2], source=[1, 6, 3, 3],
                    target=[2, 2, 4, 1]),
    "dot": dict(attention="luong_dot", words=[8, 8], embedding=5, units=5, layers=[4, 4], shared=True, tied=True,
                source=[2, 4, 3], target=[3, 3, 2]),
}


class Encoder(nn.Module):
    def __init__(self, embedder, embedding, units, layers):
        super().__init__()
        self.embedder = embedder
        sizes = [embedding, 2 * units] + [units] * (layers - 2)
        self.rnn_layers = nn.ModuleList(
            nn.LSTM(size, units, bidirectional=i == 0) for i, size in enumerate(sizes[:layers]))

    def forward(self, words, lengths):
        x = self.embedder(words)
        for i, layer in enumerate(self.rnn_layers):
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            y, _ = pad_packed_sequence(layer(packed)[0], total_length=len(words))
            x = y if i < 2 else y + x
        return x


class Attention(nn.Module):
    def __init__(self, kind, queries, values, units):
        super().__init__()
        self.kind = kind
        if kind.startswith("bahdanau"):
            self.linear_q = nn.Linear(queries, units, bias=False)
            self.linear_k = nn.Linear(values, units, bias=False)
            self.linear_att = nn.Parameter(torch.empty(units))
            if kind == "bahdanau_normalised":
                self.normalize_scalar = nn.Parameter(torch.empty(1))
                self.normalize_bias = nn.Parameter(torch.empty(units))
        elif kind == "luong_general":
            self.linear_k = nn.Linear(values, queries, bias=False)

    def scores(self, query, values):
        if self.kind == "luong_dot":
            return torch.einsum("tnh,snh->tns", query, values)
        if self.kind == "luong_general":
            return torch.einsum("tnh,snh->tns", query, self.linear_k(values))
        total, v = self.linear_q(query)[:, None] + self.linear_k(values)[None], self.linear_att
        if self.kind == "bahdanau_normalised":
            total, v = total + self.normalize_bias, self.normalize_scalar * v / v.norm()
        return (torch.tanh(total) @ v).transpose(1, 2)

    def forward(self, query, values, lengths):
        hidden = torch.arange(len(values))[None] >= lengths[:, None]
        weights = torch.softmax(self.scores(query, values).masked_fill(hidden, -math.inf), -1)
        return torch.einsum("tns,snc->tnc", weights, values), weights


class AttentiveLayer(nn.Module):
    def __init__(self, kind, embedding, units, values):
        super().__init__()
        self.rnn = nn.LSTM(embedding, units)
        self.attn = Attention(kind, units, values, units)


class Classifier(nn.Module):
    def __init__(self, units, words):
        super().__init__()
        self.classifier = nn.Linear(units, words)


class Decoder(nn.Module):
    def __init__(self, embedder, kind, embedding, units, layers, values, words):
        super().__init__()
        self.embedder = embedder
        self.att_rnn = AttentiveLayer(kind, embedding, units, values)
        self.rnn_layers = nn.ModuleList(nn.LSTM(units + values, units) for _ in range(layers - 1))
        self.classifier = Classifier(units, words)

    def forward(self, words, memory, lengths):
        x, _ = self.att_rnn.rnn(self.embedder(words))
        context, weights = self.att_rnn.attn(x, memory, lengths)
        for i, layer in enumerate(self.rnn_layers):
            y, _ = layer(torch.cat([x, context], -1))
            x = y if i == 0 else y + x
        return self.classifier.classifier(x), weights


class Network(nn.Module):
    def __init__(self, case):
        super().__init__()
        embedding, units, (below, above) = case["embedding"], case["units"], case["layers"]
        table = nn.Embedding(case["words"][0], embedding)
        other = table if case.get("shared") else nn.Embedding(case["words"][1], embedding)
        self.encoder = Encoder(table, embedding, units, below)
        self.decoder = Decoder(other, case["attention"], embedding, units, above, units * (2 if below == 1 else 1),
                               case["words"][1])
        if case.get("tied"):
            self.decoder.classifier.classifier.weight = other.weight


def words_of(name, steps, rows, below):
    return torch.from_numpy((hashed(name, steps * rows) % below).astype(np.int64)).reshape(steps, rows)


def values_of(name, case):
    network = Network(case).double()
    parameters = dict(network.named_parameters())
    with torch.no_grad():
        for key, value in parameters.items():
            drawn = torch.from_numpy(signed_unit(f"{name}.{key}", value.numel()).astype(np.float64))
            value.copy_((0.75 * drawn).to(torch.float32).reshape(value.shape))
    lengths, written = torch.tensor(case["source"]), torch.tensor(case["target"])
    steps, rows = int(written.max()), len(lengths)
    source = words_of(f"{name}.source", int(lengths.max()), rows, case["words"][0])
    read = words_of(f"{name}.target_in", steps, rows, case["words"][1])
    target = words_of(f"{name}.target", steps, rows, case["words"][1])
    target = target.masked_fill(torch.arange(steps)[:, None] >= written[None], NO_TARGET)
    logits, weights = network.decoder(read, network.encoder(source, lengths), lengths)
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=NO_TARGET, label_smoothing=SMOOTHING)
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    results = {"logits": logits, "attention": weights, "loss": loss[None], "target": target}
    results.update((f"gradient.{key}", gradient) for key, gradient in zip(parameters, gradients))
    return {f"{name}.{key}": value.detach().contiguous() for key, value in results.items()}, list(parameters)


if __name__ == "__main__":
    tensors, names = {}, {}
    for case_name, one in CASES.items():
        made, names[case_name] = values_of(case_name, one)
        tensors.update(made)
    save_file(tensors, HERE / "encoder_decoder.safetensors",
              {"torch": torch.__version__, "cases": json.dumps(CASES), "parameters": json.dumps(names)})
    print(len(CASES), "cases,", len(tensors), "tensors")
