"""Golden values of 50 training steps of an encoder-decoder: tests/golden/translation.safetensors.

    python translation.py       # needs torch 2.11, numpy and safetensors; writes the file beside itself

The network is that of encoder_decoder.py, which learns to write sentences backwards in another alphabet, with smoothed labels
and clipping. Stored are, in FP64, the scores and every gradient of the first step and the losses of all; beside them the losses
in FP32 and under torch.autocast on the CPU in BF16 and FP16 (with a fixed loss scale). nn.LSTM has no 16-bit kernel on a CPU
without BF16 products, so under autocast the cells are composed: products by autocast, gates and cell state in FP32.
"""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from encoder_decoder import NO_TARGET, SMOOTHING, Network
from resnet import gradients_of, hashed, initialised
from runs import autocast, backward, is_low, store_runs

HERE = pathlib.Path(__file__).parent
STEPS, LR, CLIP = 50, 0.7, 1.0
CASE = dict(attention="bahdanau_normalised", words=[12, 14], embedding=12, units=16, layers=[3, 3])
LONGEST, N, BATCHES = 6, 8, 5  # which come again and again


def composed(lstm, x, lengths):
    """A layer of cells, as cuDNN has it: lengths rows of each column count, what is behind them gives zeros."""
    outputs = []
    for backward in range(2 if lstm.bidirectional else 1):
        w_ih, w_hh, b_ih, b_hh = lstm.all_weights[backward]
        h = c = torch.zeros(x.size(1), lstm.hidden_size)
        ys = [None] * len(x)
        for t in reversed(range(len(x))) if backward else range(len(x)):
            i, f, g, o = (F.linear(x[t], w_ih, b_ih) + F.linear(h, w_hh, b_hh)).float().chunk(4, 1)
            c_next = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h_next = o.sigmoid() * c_next.tanh()
            here = (t < lengths)[:, None]
            h, c = torch.where(here, h_next, h), torch.where(here, c_next, c)
            ys[t] = h_next * here
        outputs.append(torch.stack(ys))
    return torch.cat(outputs, -1)


def logits_of(model, source, lengths, read):
    if not torch.is_autocast_enabled("cpu"):
        return model.decoder(read, model.encoder(source, lengths), lengths)[0]
    everything = torch.full_like(lengths, len(read))
    x = model.encoder.embedder(source)
    for i, layer in enumerate(model.encoder.rnn_layers):
        y = composed(layer, x, lengths)
        x = y if i < 2 else y + x
    memory = x
    x = composed(model.decoder.att_rnn.rnn, model.decoder.embedder(read), everything)
    context, _ = model.decoder.att_rnn.attn(x, memory, lengths)
    for i, layer in enumerate(model.decoder.rnn_layers):
        y = composed(layer, torch.cat([x, context], -1), everything)
        x = y if i == 0 else y + x
    return model.decoder.classifier.classifier(x)


def batch(number):
    """Source [S,N] with its lengths, what the decoder reads and what it is to write, [S+1,N] each; word 0 begins and ends."""
    lengths = 1 + hashed(f"lengths{number}", N).astype(np.int64) % LONGEST
    steps = int(lengths.max())
    source = 1 + hashed(f"source{number}", LONGEST * N).astype(np.int64).reshape(LONGEST, N)[:steps] % (CASE["words"][0] - 1)
    read, target = np.zeros((steps + 1, N), np.int64), np.full((steps + 1, N), NO_TARGET)
    for row, length in enumerate(lengths):
        written = 1 + (5 * source[:length, row][::-1] + 2) % (CASE["words"][1] - 1)
        read[1:length + 1, row] = target[:length, row] = written
        target[length, row] = 0
    return tuple(map(torch.from_numpy, (source, lengths, read, target)))


def learn(model, optimizer, logits_of, steps, dtype):
    """What store_runs() needs of a run: values of the first step, losses of all."""
    values, losses = {}, []
    for step in range(steps):
        source, lengths, read, target = batch(step % BATCHES)
        with autocast(dtype):
            logits = logits_of(model, source, lengths, read)
        loss = F.cross_entropy((logits.float() if is_low(dtype) else logits).flatten(0, 1), target.flatten(),
                               ignore_index=NO_TARGET, label_smoothing=SMOOTHING)
        backward(loss, model, dtype)
        losses.append(loss.item())
        if step == 0:
            values["logits"] = logits.detach().double()
            values.update(gradients_of(model))
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    return values, torch.tensor(losses, dtype=torch.float64)


def train(dtype):
    model = initialised(lambda: Network(CASE), torch.float32 if is_low(dtype) else dtype)
    return learn(model, torch.optim.SGD(model.parameters(), LR), logits_of, STEPS, dtype)


if __name__ == "__main__":
    store_runs(train, HERE / "translation.safetensors")
