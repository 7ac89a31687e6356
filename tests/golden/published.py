"""Small files of published Transformers as Hugging Face's library writes them, and BERT's golden values:
tests/golden/{bert,bert_values,gpt2_lm}.safetensors.

    python published.py       # needs torch 2.15, transformers 5.24 and safetensors; writes the files beside itself

bert is a BertForPreTraining of two layers. bert_values has, in FP64, the logits of masked words and of next sentences for a
batch of two texts, one padded, the loss, and every gradient, under the names of the library. gpt2_lm is a GPT2LMHeadModel of
one layer with its Conv1D matrices, with the buffers of older files and without lm_head; tokens and logits (FP64) are
in its metadata.
"""
import json
import pathlib

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).parent


def drawn(model, seed):
    """Weights with two decimals, exact in FP32 only up to rounding; norms around 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = torch.randn(parameter.shape, generator=generator) * 0.4
            norm = ("LayerNorm" in name or ".ln_" in name) and name.endswith("weight")
            parameter.copy_(value + 1.0 if norm else value)
    return model


def bert():
    model = drawn(BertForPreTraining(BertConfig(
        vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=6, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)), 1)
    save_file({name: value.clone().contiguous() for name, value in model.state_dict().items()},
              HERE / "bert.safetensors", {"format": "pt"})
    model = model.double().eval()
    tokens = torch.tensor([[2, 7, 4, 9, 3, 5], [2, 8, 3, 4, 0, 0]])
    segments = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 0]])
    seen = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    labels = torch.full((2, 6), -100)
    labels[0, 2], labels[0, 5], labels[1, 1] = 6, 5, 10
    following = torch.tensor([0, 1])
    out = model(input_ids=tokens, token_type_ids=segments, attention_mask=seen, labels=labels, next_sentence_label=following)
    out.loss.backward()
    values = {"tokens": tokens, "segments": segments, "lengths": seen.sum(1), "labels": labels, "next": following,
              "logits": out.prediction_logits[seen.bool()], "next logits": out.seq_relationship_logits, "loss": out.loss}
    for name, parameter in model.named_parameters():
        values["gradient/" + name] = parameter.grad
    save_file({name: value.detach().clone().contiguous() for name, value in values.items()}, HERE / "bert_values.safetensors")


def gpt2():
    model = drawn(GPT2LMHeadModel(GPT2Config(
        vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=0)), 2)
    tensors = {name: value.clone().contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    tensors["transformer.h.0.attn.bias"] = torch.ones(5, 5).tril().reshape(1, 1, 5, 5)
    tensors["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)
    tokens = [0, 3, 1, 6]
    logits = model.double().eval()(torch.tensor([tokens])).logits[0]
    save_file(tensors, HERE / "gpt2_lm.safetensors",
              {"format": "pt", "tokens": json.dumps(tokens), "logits": json.dumps(logits.tolist())})


bert()
gpt2()
