"""BLEU by sacrebleu: tests/golden/bleu.json.

    python bleu.py > bleu.json    # needs sacrebleu 2.6.0; the committed bleu.json was made so

500 pairs of sentences of made-up text, in several scripts, with numbers, punctuation, entities, odd white space and empty
lines; a hypothesis is its reference with some of it changed. For each: the words of either by 13a, the statistics, and
scores of the single sentence under OPTIONS. Then the scores of corpora, the references of which are those of their own
sentence and of sentences near it. Last, the characters that separate words.
"""
import json
import logging
import sys

import sacrebleu
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from drawn import Hash

PAIRS = 500
WORDS = """the a of in on and to with from under over near one two three cat dog garden mat river bridge house street green
small old quiet sees walks sleeps opens closes finds loses again never today slowly Anna Peter London it's don't well-known
e-mail co-operate U.S. e.g. i.e. Mr. Dr. naïve café Straße über schön größer Élan œuvre mañana ¿qué? año øre Ærø łódź
čas ещё дом река мост кошка спит 猫 庭 橋 家。 犬、 γάτα κήπος गाँव घर שלום בית مرحبا 🙂 👩‍👩‍👧 e\u0301te\u0301""".split()
NUMBERS = """1 2 42 3.5 1,000 1,000.50 -7 +3 2-3 1990-2021 10% $5 £3.20 €9,99 12:30 v1.2-3 3. .5 ,5 5, 1st 50° x² ٣٫٥ ٣.٥ ３．５ 7.- 0-0-0
192.168.0.1 1/2 3×4 2^8 a1.b2 9-a a-9""".split()
MARKS = """. , ! ? ; : ... .. .,. ,, -- – — - ( ) [ ] { } " ' '' `` « » „ “ ” ‘ ’ / \\ | ~ ^ _ = + * & % $ # @ < > &quot; &amp; &lt; &gt;
&amp;lt; &amp;quot; &apos; <skipped> <skip<skipped>ped> &amp;amp; C++ C# a_b http://x.org/?q=1&b=2 me@x.org #tag @you 1.) a.) (i)""".split()
GAPS = [" "] * 30 + ["  ", "\t", "\u00a0", "\u2009", "\u3000", "\u200b", "\u0085", "\n", "-\n", "\r\n", "\v", "\u2028",
                     "\x1f", "", ""]
ENDS = [".", ".", ".", "!", "?", " .", "...", "", ".\n", "-\n", " ", "\u00a0", "\u2029", ",", ".)", ".\""]
# Smoothing, its value, effective order: of single sentences.
OPTIONS = [("exp", None, False), ("exp", None, True), ("floor", None, True), ("floor", 0.5, False), ("add-k", None, False),
           ("add-k", 0.3, True), ("none", None, True)]


def piece(draw):
    kind = draw.below(10)
    return draw.of(NUMBERS) if kind == 0 else draw.of(MARKS) if kind == 1 else draw.of(WORDS)


def sentence(draw):
    return [piece(draw) for _ in range(draw.below(18) + 1 if draw.below(8) else draw.below(4))]


def written(pieces, draw):
    text = ""
    for each in pieces:
        text += (draw.of(GAPS) if text else "") + each + (draw.of(MARKS) if draw.below(15) == 0 else "")
    return text + draw.of(ENDS) if pieces or draw.below(4) == 0 else ""


def changed(pieces, draw):
    result = []
    for each in pieces:
        kind = draw.below(16)
        if kind == 0:
            continue
        result.append(piece(draw) if kind == 1 else each.upper() if kind == 2 else each)
        if kind == 3:
            result.append(each)
        if kind == 4 and len(result) > 1:
            result[-2:] = reversed(result[-2:])
    return result


def pairs():
    draw = Hash(2600)
    found = []
    for _ in range(PAIRS):
        pieces = sentence(draw)
        reference = written(pieces, draw)
        kind = draw.below(20)
        hypothesis = reference if kind == 0 else "" if kind == 1 else written(changed(pieces, draw), draw)
        found.append((hypothesis, reference))
    return found


def visible(text):
    """JSON with escapes for what an editor would not show."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def figures(score):
    return {"score": score.score, "precisions": score.precisions, "bp": score.bp, "sys_len": score.sys_len,
            "ref_len": score.ref_len}


def metric(smooth, value, effective, tokens="13a"):
    return BLEU(tokenize=tokens, smooth_method=smooth, smooth_value=value, effective_order=effective)


def statistics(hypothesis, references):
    score = metric("none", None, False).sentence_score(hypothesis, references)
    return [score.sys_len, score.ref_len, *score.counts, *score.totals]


def corpus(found, first, last, references, smooth, value, effective, tokens):
    """`references`: of every sentence its own and those of the next so many; "var": of sentence i i % 3 more."""
    of = lambda i: 1 + i % 3 if references == "var" else references
    hypotheses = [found[i][0] for i in range(first, last)]
    streams = [[found[(i + k) % PAIRS][1] if k < of(i) else None for i in range(first, last)] for k in range(3)]
    streams = streams[:3 if references == "var" else references]
    bleu = metric(smooth, value, effective, tokens)
    score = bleu.corpus_score(hypotheses, streams)
    return {"first": first, "last": last, "references": references, "smooth": smooth, "value": value,
            "effective": effective, "tokens": tokens, **figures(score), "counts": [float(c) for c in score.counts],
            "signature": str(bleu.get_signature())}


def main():
    found = pairs()
    words = Tokenizer13a()
    lines = []
    for i, (hypothesis, reference) in enumerate(found):
        several = [found[(i + k) % PAIRS][1] for k in range(3)]
        lines.append(visible(json.dumps([
            hypothesis, reference, words(hypothesis.rstrip()), words(reference.rstrip()),
            statistics(hypothesis, [reference]), statistics(hypothesis, several),
            [round(metric(*each).sentence_score(hypothesis, [reference]).score, 12) for each in OPTIONS],
        ], ensure_ascii=False, separators=(",", ":"))))
    corpora = [json.dumps(corpus(found, *row)) for row in [
        (0, PAIRS, 1, "exp", None, False, "13a"), (0, PAIRS, 1, "exp", None, False, "none"),
        (0, PAIRS, 2, "exp", None, False, "13a"), (0, PAIRS, "var", "exp", None, False, "13a"),
        (0, PAIRS, 3, "add-k", 2.5, True, "none"), (0, PAIRS, 1, "floor", None, False, "13a"),
        (0, PAIRS, 1, "none", None, True, "13a"), (0, PAIRS, 1, "add-k", None, False, "13a"),
        *[(first, first + 5, references, smooth, value, effective, "13a")
          for first in range(0, 60, 5) for references in (1, "var") for smooth, value, effective in OPTIONS[:1] + OPTIONS[3:5]],
    ]]
    spaces = json.dumps([c for c in range(0x110000) if chr(c).isspace()])
    assert all((len(f"a{chr(c)}b".split()) == 2) == chr(c).isspace() for c in range(0x110000))
    options = json.dumps([dict(zip(("smooth", "value", "effective"), each)) for each in OPTIONS])
    print(f'{{"sacrebleu": "{sacrebleu.__version__}",\n"options": {options},\n"spaces": {spaces},\n"pairs": [\n'
          + ",\n".join(lines) + '\n],\n"corpora": [\n' + ",\n".join(corpora) + "\n]}")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    logging.disable(logging.WARNING)  # of scores of single sentences
    main()
