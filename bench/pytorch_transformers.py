"""Transformers of `./run bench` in PyTorch: one projection for queries, keys and values, scaled_dot_product_attention, fused AdamW."""

import torch
from torch import nn
import torch.nn.functional as F

from pytorch_translation import NO_TARGET


class Attention(nn.Module):
    def __init__(self, width, heads, bias, causal, dropout):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.projection = nn.Linear(width, 3 * width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, x, memory=None, mask=None):
        """Keys and values are those of `memory`, or of x. mask: keys that queries attend to."""
        width = x.shape[-1]
        if memory is None:
            q, k, v = self.projection(x).chunk(3, -1)
        else:
            (of_query, of_memory), (b, b_memory) = (p.split([width, 2 * width]) for p in (self.projection.weight, self.projection.bias))
            q = F.linear(x, of_query, b)
            k, v = F.linear(memory, of_memory, b_memory).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0, self.causal)
        return self.output(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Pre-norm, or post-norm as in BERT; `cross`: with attention to a memory."""

    def __init__(self, width, heads, inner=0, pre_norm=True, causal=False, bias=True, activation=nn.GELU(), eps=1e-5, dropout=0.0,
                 attention_dropout=0.0, inner_dropout=0.0, cross=False):
        super().__init__()
        self.pre_norm = pre_norm
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=eps, bias=bias) for _ in range(2))
        self.attention = Attention(width, heads, bias, causal, attention_dropout)
        inner = inner or 4 * width
        self.mlp = nn.Sequential(nn.Linear(width, inner, bias=bias), activation, nn.Dropout(inner_dropout),
                                 nn.Linear(inner, width, bias=bias))
        if cross:
            self.cross_norm, self.cross = nn.LayerNorm(width, eps=eps), Attention(width, heads, bias, False, attention_dropout)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None, memory=None, memory_mask=None):
        if self.pre_norm:
            x = x + self.drop(self.attention(self.norm1(x), mask=mask))
            if memory is not None:
                x = x + self.drop(self.cross(self.cross_norm(x), memory, memory_mask))
            return x + self.drop(self.mlp(self.norm2(x)))
        x = self.norm1(x + self.drop(self.attention(x)))
        return self.norm2(x + self.drop(self.mlp(x)))


def draw(model, deviation=0.02):
    """As GPT-2 and BERT: normal weights, biases 0."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, 0.0, deviation)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


class Gpt(nn.Module):
    """As in nanoGPT; returns the loss."""

    def __init__(self, words, context, layers, width, heads, bias=True, gelu="none"):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=True, bias=bias, activation=nn.GELU(gelu)) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, bias=bias)
        self.output = nn.Linear(width, words, bias=False)
        draw(self)
        for block in self.blocks:
            for last in (block.attention.output, block.mlp[3]):
                nn.init.normal_(last.weight, 0.0, 0.02 / (2 * layers) ** 0.5)
        self.output.weight = self.words.weight

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.positions.weight[:tokens.shape[1]]
        logits = self.output(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Bert(nn.Module):
    """Returns the loss of masked words; texts have the same length and are no pairs."""

    def __init__(self, words, context, layers, width, heads, dropout=0.1, eps=1e-12):
        super().__init__()
        self.words, self.positions, self.segments = (nn.Embedding(count, width) for count in (words, context, 2))
        self.norm, self.drop = nn.LayerNorm(width, eps=eps), nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, pre_norm=False, eps=eps, dropout=dropout, attention_dropout=dropout)
                                      for _ in range(layers)))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, eps=eps))
        self.output = nn.Linear(width, words)
        draw(self)
        self.output.weight = self.words.weight

    def forward(self, tokens, chosen, labels):
        """chosen: indices of masked tokens among all of the batch."""
        x = self.words(tokens) + self.positions.weight[:tokens.shape[1]] + self.segments.weight[0]
        x = self.blocks(self.drop(self.norm(x)))
        return F.cross_entropy(self.output(self.transform(x.flatten(0, 1)[chosen])), labels)


class Vit(nn.Module):
    """As torchvision's VisionTransformer: a class token and the patches, the head at 0."""

    def __init__(self, channels, side, patch, layers, width, heads, classes, inner=0, dropout=0.0):
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, (side // patch) ** 2 + 1, width).normal_(std=0.02))
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, inner, eps=1e-6, dropout=dropout, inner_dropout=dropout)
                                      for _ in range(layers)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(self.drop(x)))[:, 0])


class Translator(nn.Module):
    """As torch.nn.Transformer, pre-norm, with one table for both sides and the output; returns the loss."""

    def __init__(self, words, longest, layers, width, heads, inner, dropout):
        super().__init__()
        self.words, self.drop = nn.Embedding(words, width), nn.Dropout(dropout)
        angles = torch.arange(longest)[:, None] * 1e4 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        blocks = [Block(width, heads, inner, causal=decoder, activation=nn.ReLU(), dropout=dropout, attention_dropout=dropout,
                        cross=decoder) for decoder in (False, True) for _ in range(layers)]
        self.encoder, self.decoder = nn.ModuleList(blocks[:layers]), nn.ModuleList(blocks[layers:])
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.words.weight, 0.0, width ** -0.5)

    def embedded(self, tokens):
        return self.drop(self.words(tokens) * self.words.embedding_dim ** 0.5 + self.positions[:tokens.shape[1]])

    def forward(self, source, present, read, target):
        """present [N,1,1,S] where a source has words."""
        memory = self.embedded(source)
        for block in self.encoder:
            memory = block(memory, present)
        memory, y = self.encoder_norm(memory), self.embedded(read)
        for block in self.decoder:
            y = block(y, memory=memory, memory_mask=present)
        logits = F.linear(self.decoder_norm(y), self.words.weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=NO_TARGET, label_smoothing=0.1)


def trained(model, inputs, items, autocast, optimized):
    """A step of a model that returns its loss, and its number of items. Matrices have weight decay."""
    matrices, vectors = ([p for p in model.parameters() if (p.dim() > 1) == wanted] for wanted in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    model, optimizer = optimized(model, torch.optim.AdamW(groups, 1e-3, betas=(0.9, 0.99), fused=True))

    def step():
        with autocast():
            loss = model(*inputs)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return [loss]

    return step, items


def next_words(words, texts, tokens, sizes, autocast, optimized):
    inputs = tuple(torch.randint(0, words, (texts, tokens)) for _ in range(2))
    return trained(Gpt(words, **sizes), inputs, texts * tokens, autocast, optimized)


def masked_words(words, texts, tokens, masked, sizes, autocast, optimized):
    inputs = (torch.randint(0, words, (texts, tokens)), torch.randint(0, texts * tokens, (texts * masked,)),
              torch.randint(0, words, (texts * masked,)))
    return trained(Bert(words, **sizes), inputs, texts * tokens, autocast, optimized)


def pairs(words, pairs, shortest, longest, sizes, autocast, optimized):
    source, read, target = (torch.randint(0, words, (pairs, longest)) for _ in range(3))
    present = torch.arange(longest) < (longest - torch.arange(pairs) % (longest - shortest + 1))[:, None]
    target[~present] = NO_TARGET
    inputs = source, present[:, None, None], read, target
    return trained(Translator(words, longest, **sizes), inputs, pairs, autocast, optimized)


OF_CHARACTERS, GPT2 = {"bias": False}, {"gelu": "tanh"}
# Functions and their first arguments; autocast() and optimized() follow.
TRANSFORMERS = {
    "gpt_char": (next_words, 100, 12, 64, {"context": 64, "layers": 4, "width": 128, "heads": 4, **OF_CHARACTERS}),
    "gpt_char_384": (next_words, 100, 4, 256, {"context": 256, "layers": 6, "width": 384, "heads": 6, **OF_CHARACTERS}),
    "gpt2_124m": (next_words, 50257, 4, 256, {"context": 1024, "layers": 12, "width": 768, "heads": 12, **GPT2}),
    "transformer": (pairs, 8000, 64, 17, 24, {"layers": 3, "width": 256, "heads": 4, "inner": 1024, "dropout": 0.3}),
    "bert_mini": (masked_words, 8000, 64, 128, 20, {"context": 128, "layers": 4, "width": 256, "heads": 4}),
}


def vit_ti():
    return Vit(3, 224, 16, 12, 192, 3, 1000)


def vit_fashion():
    return Vit(1, 28, 4, 4, 128, 4, 10, inner=256, dropout=0.1)
