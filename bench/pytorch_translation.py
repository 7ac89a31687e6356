"""The encoder-decoder of `./run bench` in PyTorch: GNMT v2's layers, as in NVIDIA's DeepLearningExamples."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

NO_TARGET = -1


class Attention(nn.Module):
    """Normalised Bahdanau attention; projects the encoder's outputs once for all steps."""

    def __init__(self, units):
        super().__init__()
        self.query, self.key = (nn.Linear(units, units, bias=False) for _ in range(2))
        self.v = nn.Parameter(torch.empty(units).uniform_(-0.1, 0.1))
        self.g = nn.Parameter(torch.full((1,), units ** -0.5))
        self.b = nn.Parameter(torch.zeros(units))

    def forward(self, query, memory, hidden):
        """query [N,T,H], memory [N,S,H], hidden [N,S] where a sentence has ended -> context [N,T,H]."""
        total = self.query(query)[:, :, None] + self.key(memory)[:, None] + self.b
        scores = torch.tanh(total) @ (self.g * self.v / self.v.norm()).to(total.dtype)
        return torch.softmax(scores.masked_fill(hidden[:, None], -65504.0), -1) @ memory


class Network(nn.Module):
    def __init__(self, words, units, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.embedder = nn.Embedding(words, units)
        self.forwards_and_backwards = nn.LSTM(units, units, bidirectional=True)
        self.encoder = nn.LSTM(2 * units, units)
        self.first = nn.LSTM(units, units)
        self.attention = Attention(units)
        self.second = nn.LSTM(2 * units, units)
        self.classifier = nn.Linear(units, words)
        self.classifier.weight = self.embedder.weight
        nn.init.uniform_(self.embedder.weight, -0.1, 0.1)

    def forward(self, source, lengths, hidden, read):
        """lengths on the CPU; hidden [N,S] where a sentence has ended."""
        packed = pack_padded_sequence(self.drop(self.embedder(source)), lengths, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.forwards_and_backwards(packed)[0])
        packed = pack_padded_sequence(self.drop(x), lengths, enforce_sorted=False)
        memory, _ = pad_packed_sequence(self.encoder(packed)[0])
        memory = memory.transpose(0, 1)
        y, _ = self.first(self.drop(self.embedder(read)))
        context = self.attention(y.transpose(0, 1), memory, hidden).transpose(0, 1)
        y, _ = self.second(self.drop(torch.cat([y, context], -1)))
        return self.classifier(y)


def translation(autocast, optimized, words=8000, longest=24, shortest=17, pairs=64, units=256):
    model = Network(words, units, 0.3)
    model, optimizer = optimized(model, torch.optim.Adam(model.parameters(), 1e-4, fused=True))
    source, read, target = (torch.randint(0, words, (longest, pairs)) for _ in range(3))
    lengths = longest - torch.arange(pairs) % (longest - shortest + 1)
    hidden = torch.arange(longest) >= lengths[:, None]
    target[hidden.T] = NO_TARGET
    lengths = lengths.cpu()

    def step():
        with autocast():
            logits = model(source, lengths, hidden, read)
            loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=NO_TARGET, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return [loss]

    return step, pairs
