"""Golden values of a small language model: tests/golden/language.safetensors.

    python language.py        # needs torch 2.11 and safetensors; writes the file beside itself

The model is PyTorch's word_language_model with two LSTM layers and tied weights. It reads four streams in pieces of seven
words, with the state carried from piece to piece, for 50 steps of SGD with clipping. Weights and words come from the hash of
resnet.py, which tests/golden/language_test.cpp computes too. Everything is computed in FP64; the losses of FP32 and of
torch.autocast on the CPU in BF16 and FP16 (with a fixed loss scale) are stored beside those of FP64, and how far PyTorch's
own runs are from FP64 goes into the metadata. nn.LSTM has no 16-bit kernel on a CPU without BF16 products, so under autocast
the cells are composed: products by autocast, gates and cell state in FP32.
"""
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from resnet import gradients_of, hashed, initialised
from runs import autocast, backward, is_low, store_runs

HERE = pathlib.Path(__file__).parent
STEPS, LR, CLIP = 50, 8.0, 0.25
WORDS, UNITS, T, N = 40, 16, 7, 4


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(WORDS, UNITS)
        self.rnn = nn.LSTM(UNITS, UNITS, 2)
        self.decoder = nn.Linear(UNITS, WORDS)
        self.decoder.weight = self.encoder.weight

    def composed(self, x, state):
        h, c = (list(each) for each in state)
        ys = []
        for x_t in x:
            for layer in range(2):
                w_ih, w_hh, b_ih, b_hh = self.rnn.all_weights[layer]
                i, f, g, o = (F.linear(x_t, w_ih, b_ih) + F.linear(h[layer], w_hh, b_hh)).float().chunk(4, 1)
                c[layer] = f.sigmoid() * c[layer] + i.sigmoid() * g.tanh()
                x_t = h[layer] = o.sigmoid() * c[layer].tanh()
            ys.append(x_t)
        return torch.stack(ys), (torch.stack(h), torch.stack(c))

    def forward(self, words, state):
        x = self.encoder(words)
        y, state = self.composed(x, state) if torch.is_autocast_enabled("cpu") else self.rnn(x, state)
        return self.decoder(y), state


def pieces():
    """Words and the words after them, [STEPS,T,N] each. A word follows from the one before it with 3 of 4."""
    drawn = hashed("words", (STEPS * T + 1) * N).reshape(STEPS * T + 1, N)
    words = np.empty(drawn.shape, np.int64)
    words[0] = drawn[0] % WORDS
    for t in range(1, len(words)):
        words[t] = np.where(drawn[t] % 4 == 0, drawn[t] // 4 % WORDS, (7 * words[t - 1] + 3) % WORDS)
    cut = lambda first: torch.from_numpy(words[first:first + STEPS * T].reshape(STEPS, T, N))
    return cut(0), cut(1)


def train(dtype):
    lowered = is_low(dtype)
    wide = torch.float32 if lowered else dtype
    model = initialised(LanguageModel, wide)
    optimizer = torch.optim.SGD(model.parameters(), LR)
    state = tuple(torch.zeros(2, N, UNITS, dtype=wide) for _ in range(2))
    values, losses = {}, []
    for step, (words, targets) in enumerate(zip(*pieces())):
        with autocast(dtype):
            logits, state = model(words, state)
        state = tuple(each.detach() for each in state)
        loss = F.cross_entropy((logits.float() if lowered else logits).view(-1, WORDS), targets.view(-1))
        backward(loss, model, dtype)
        losses.append(loss.item())
        if step == 0:
            values["logits"] = logits.detach().double()
            values["h"], values["c"] = (each.double() for each in state)
            values.update(gradients_of(model))
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    values["last c"] = state[1].double()
    return values, torch.tensor(losses, dtype=torch.float64)


if __name__ == "__main__":
    store_runs(train, HERE / "language.safetensors")
