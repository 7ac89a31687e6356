#!/usr/bin/env python3
"""Question answering of other programs: tests/golden/answers.json and bert_answers.safetensors.

    python3 tests/golden/answers.py     needs torch 2.15, transformers 5.24, tokenizers 0.23.3, torchmetrics 1.9 and safetensors

answers.json has the windows of tokenizers for questions and contexts (ids, segments, places in characters), and exact match and F1 of
torchmetrics' SQuAD, a port of the official evaluation, for accepted answers of which none is empty; those that are empty come from
the published rule of SQuAD 2.0. bert_answers.safetensors is a BertForQuestionAnswering of two layers as transformers writes it; its
metadata has, in FP64, the logits of a batch of two windows, one padded, the loss with masked padding, and the norm of every gradient.
"""
import json
import pathlib
import random

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torchmetrics.functional.text import squad
from transformers import BertConfig, BertForQuestionAnswering

HERE = pathlib.Path(__file__).parent
WORDS = "the town of Épernay lies on river Marne and its cellars keep wine since 1743 naïve visitors don't see 日本 bottles".split()
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "town", "of", "ep", "##ern", "##ay", "lies", "on", "river", "mar", "##ne",
          "and", "its", "cell", "##ars", "keep", "wine", "since", "17", "##43", "na", "##ive", "visitors", "don", "'", "t", "日", "本",
          "bottle", "##s", "where", "what", "does", "lie", "?", ".", ","]
ANSWERS = [("the Eiffel Tower", ["Eiffel Tower in Paris"]), ("Paris", ["Paris"]), ("in  paris.", ["Paris"]), ("A cat", ["cat", "dog"]),
           ("an answer of the many", ["many answers", "one answer"]), ("U.S.A.", ["USA"]), ("the-cat", ["thecat"]), ("ÉPERNAY", ["épernay"]),
           ("a–b", ["b"]), ("1,743", ["1743"]), ("the the cat the", ["cat"]), ("cat cat", ["cat"]), ("x\u00a0y\u2003z", ["x y z"]),
           ("don't", ["dont"]), ("“Tower”", ["Tower"]), ("theatre", ["the atre"]), ("naïve", ["naive"]), ("of the town", ["town of the"]),
           ("wholly other", ["nothing shared"]), ("e\u0301a the", ["e\u0301a"]), ("42 % of it", ["42"]), ("日本 the", ["日本"])]
# Of SQuAD 2.0: without an accepted answer only an empty one is right.
EMPTY = [("", [], 1, 1.0), ("the", [], 1, 1.0), ("Paris", [], 0, 0.0), ("", ["Paris"], 0, 0.0), ("Paris", ["the", "Paris"], 1, 1.0), ("", ["the"], 1, 1.0)]


def matches():
    cases = [{"answer": a, "accepted": accepted, "exact": e, "f1": f} for a, accepted, e, f in EMPTY]
    for answer, accepted in ANSWERS:
        score = squad([{"id": "1", "prediction_text": answer}],
                      [{"id": "1", "answers": {"answer_start": [0] * len(accepted), "text": accepted}}])
        cases.append({"answer": answer, "accepted": accepted, "exact": int(score["exact_match"] / 100), "f1": float(score["f1"]) / 100})
    return cases


def windows():
    draw = random.Random(7)
    cases = []
    for longest, max_question, stride, words in [(16, 4, 3, 30), (16, 4, 100, 30), (24, 8, 6, 60), (40, 8, 5, 20), (12, 3, 1, 12), (64, 20, 9, 3)]:
        question = "Where does the town lie? What " + " ".join(draw.choice(WORDS) for _ in range(4))
        context = " ".join(draw.choice(WORDS) for _ in range(words)) + "."
        tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        cut = tokenizer.encode(question).offsets[:max_question]
        asked = question[:cut[-1][1]]
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        room = longest - 3 - len(cut)
        tokenizer.enable_truncation(longest, stride=room - min(stride, room), strategy="only_second")
        first = tokenizer.encode(asked, context)
        cases.append({"longest": longest, "max_question": max_question, "stride": stride, "question": question, "context": context,
                      "windows": [{"ids": w.ids, "segments": w.type_ids,
                                   "places": [place for place, sequence in zip(w.offsets, w.sequence_ids) if sequence == 1]}
                                  for w in [first, *first.overflowing]]})
    return cases


def bert():
    model = BertForQuestionAnswering(BertConfig(
        vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=6, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = torch.randn(parameter.shape, generator=generator) * 0.4
            parameter.copy_(value + 1.0 if "LayerNorm" in name and name.endswith("weight") else value)
    tensors = {name: value.clone().contiguous() for name, value in model.state_dict().items()}
    model = model.double().eval()
    tokens = torch.tensor([[2, 7, 3, 9, 4, 3], [2, 8, 3, 4, 3, 0]])
    segments = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]])
    lengths, start, end = [6, 5], torch.tensor([3, 0]), torch.tensor([4, 0])
    seen = torch.arange(6)[None] < torch.tensor(lengths)[:, None]
    out = model(input_ids=tokens, token_type_ids=segments, attention_mask=seen.long())
    loss = sum(torch.nn.functional.cross_entropy(logits.masked_fill(~seen, -torch.inf), target)
               for logits, target in ((out.start_logits, start), (out.end_logits, end))) / 2
    loss.backward()
    values = {"tokens": tokens.tolist(), "segments": segments.tolist(), "lengths": lengths, "start": start.tolist(), "end": end.tolist(),
              "logits": torch.stack([out.start_logits, out.end_logits], 2).tolist(), "loss": loss.item(),
              "norms": {name: parameter.grad.norm().item() for name, parameter in model.named_parameters()}}
    save_file(tensors, HERE / "bert_answers.safetensors", {"format": "pt", "values": json.dumps(values)})


(HERE / "answers.json").write_text(json.dumps({"pieces": PIECES, "match": matches(), "windows": windows()}, ensure_ascii=False) + "\n")
bert()
