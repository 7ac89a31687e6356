#!/usr/bin/env python3
"""Subwords learnt and used by SentencePiece's Python package: tests/golden/pieces.json.
The tables of nmt_nfkc are large: the comparison learns that model again.

    python3 tests/golden/pieces.py        needs sentencepiece 0.1.97, that of Debian bookworm: 0.1.99 learns other pieces
"""
import base64
import io
import json
import random
from pathlib import Path

import sentencepiece

ONSETS = ["b", "d", "fl", "g", "k", "l", "m", "pr", "st", "tr", "z", "ß", "sch"]
NUCLEI = ["a", "e", "i", "o", "ü", "ei", "au"]
CODAS = ["", "n", "r", "s", "lt", "ng"]
PROBES = ["", " ", "stalt", "  stalt  prei ", "stalt prei, flüng zo.", "Unknown WORDS 42", "ß", "日本", "a\tb", "<s> </s> <unk>",
          "▁", "naïve façade", "stalt\u2026 \u201eprei\u201c", "x" * 40]


def texts():
    draw = random.Random(97)
    words = ["".join(draw.choice(kind) for kind in (ONSETS, NUCLEI, CODAS) * draw.randint(1, 2)) for _ in range(120)]
    return [" ".join(draw.choice(words) for _ in range(draw.randint(3, 9))) + draw.choice([".", "?", "!"]) for _ in range(200)]


cases = []
for kind, size, rules in (("unigram", 90, "identity"), ("bpe", 90, "identity"), ("unigram", 60, "nmt_nfkc")):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts()), model_writer=model, model_type=kind, vocab_size=size, character_coverage=1.0,
        normalization_rule_name=rules, num_threads=1, max_sentence_length=1 << 20, minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    probes = [{"text": text, "ids": pieces.encode(text), "decoded": pieces.decode(pieces.encode(text))}
              for text in PROBES + texts()[:5]]
    cases.append({"kind": kind, "size": size, "normalization": rules, "model": base64.b64encode(model.getvalue()).decode() if rules == "identity" else None,
                  "pieces": [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())], "probes": probes})
path = Path(__file__).with_suffix(".json")
path.write_text(json.dumps({"texts": texts(), "cases": cases}, ensure_ascii=False, indent=1) + "\n")
