"""Golden values of ten training steps of encoder-decoder Transformers: tests/golden/transformer_{pre,post}.safetensors.

    python transformer.py       # needs torch 2.15, numpy and safetensors; writes the files beside itself

The networks are torch.nn.Transformer with embeddings · √width, sinusoidal positions and an output layer without a bias: with
pre-norm, ReLU and one table for both sides and the output; with post-norm, GELU and a table each. They learn the sentences of
translation.py with smoothed labels, clipping and Adam. Stored are, in FP64, the scores and every gradient of the first step,
the losses of all, and "greedy", words [T,N] that the first weights write for the first batch, each the likeliest of those
that differ from the word before it, from which fresh weights do not get away; beside them the losses in FP32 and under torch.autocast on the CPU in BF16 and FP16 (with a fixed loss scale).
"""
import math
import pathlib

import torch
from torch import nn

from resnet import initialised
from runs import is_low, store_runs
from translation import batch, learn

HERE = pathlib.Path(__file__).parent
STEPS, GREEDY = 10, 7
WIDTH, HEADS, INNER = 24, 4, 40
CASES = {
    "pre": dict(words=[14, 14], layers=[2, 3], norm_first=True, activation="relu", tied=True),
    "post": dict(words=[12, 14], layers=[2, 2], norm_first=False, activation="gelu", tied=False),
}


def positions(steps, dtype):
    angle = torch.arange(steps, dtype=torch.float64)[:, None] * 10000 ** (-torch.arange(0, WIDTH, 2).double() / WIDTH)
    return torch.stack([angle.sin(), angle.cos()], -1).reshape(steps, 1, WIDTH).to(dtype)


class Network(nn.Module):
    def __init__(self, words, layers, norm_first, activation, tied):
        super().__init__()
        whole = nn.Transformer(WIDTH, HEADS, *layers, INNER, dropout=0.0, activation=activation, norm_first=norm_first)
        self.encoder, self.decoder = whole.encoder, whole.decoder
        self.encoder.embedding = nn.Embedding(words[0], WIDTH)
        self.decoder.embedding = self.encoder.embedding if tied else nn.Embedding(words[1], WIDTH)
        self.generator = nn.Linear(WIDTH, words[1], bias=False)
        if tied:
            self.generator.weight = self.decoder.embedding.weight

    def embedded(self, stack, words):
        weight = stack.embedding.weight
        return stack.embedding(words) * math.sqrt(WIDTH) + positions(len(words), weight.dtype)


def logits_of(model, source, lengths, read):
    behind = torch.arange(len(source))[None] >= lengths[:, None]
    causal = torch.ones(len(read), len(read), dtype=torch.bool).triu(1)
    memory = model.encoder(model.embedded(model.encoder, source), src_key_padding_mask=behind)
    hidden = model.decoder(model.embedded(model.decoder, read), memory, tgt_mask=causal, memory_key_padding_mask=behind)
    return model.generator(hidden)


def greedy(model):
    source, lengths, _, _ = batch(0)
    read = torch.zeros(1, len(lengths), dtype=torch.int64)
    with torch.no_grad():
        for _ in range(GREEDY):
            scores = logits_of(model, source, lengths, read)[-1:]
            read = torch.cat([read, scores.scatter(-1, read[-1:, :, None], -math.inf).argmax(-1)])
    return read[1:].double()


def main():
    for name, case in CASES.items():
        def run(dtype):
            model = initialised(lambda: Network(**case), torch.float32 if is_low(dtype) else dtype)
            words = {"greedy": greedy(model.double())}
            model = initialised(lambda: Network(**case), torch.float32 if is_low(dtype) else dtype)
            optimizer = torch.optim.Adam(model.parameters(), 3e-3, (0.9, 0.98), 1e-6)
            values, losses = learn(model, optimizer, logits_of, STEPS, dtype)
            return {**values, **words}, losses
        store_runs(run, HERE / f"transformer_{name}.safetensors", {"case": str(case)})


if __name__ == "__main__":
    main()
