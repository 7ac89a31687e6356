"""Golden values of small GPT-2 and Llama models: tests/golden/{gpt2,llama}.safetensors.

    python gpt.py             # needs torch 2.15, transformers 5.24 and safetensors; writes the files beside itself

The models are GPT2LMHeadModel and LlamaForCausalLM of Hugging Face's transformers, with random weights: the Llama has grouped
queries and an output layer of its own. They learn batches of random tokens for ten steps of SGD with clipping. Weights and
tokens come from the hash of resnet.py under the names and in the shapes of Tandem's gpt, which tests/golden/gpt_test.cpp
computes too: Conv1D weights are transposed, queries, keys and values are the rows of one weight, and gates precede the other
half of the perceptron. Everything is computed in FP64; losses of FP32 and of torch.autocast are stored beside those of FP64,
and how far PyTorch's own runs are from FP64 goes into the metadata. "greedy" are the tokens that generate() adds to a prompt.
"""
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from resnet import hashed, initial, sampled
from runs import autocast, backward, is_low, store_runs

HERE = pathlib.Path(__file__).parent
STEPS, LR, CLIP = 10, 0.5, 1.0
WORDS, WIDTH, LAYERS, HEADS, KV_HEADS, INNER, CONTEXT = 40, 24, 2, 4, 2, 20, 32
T, N = 12, 3
PROMPT, GREEDY = [3, 17, 5, 29], 24


def gpt2():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=WORDS, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, attn_implementation="eager"))


def llama():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=None, attn_implementation="eager"))


def parts_of_gpt2(model):
    """Tandem's names and the model's parameters: their parts by rows, and whether they are transposed."""
    for name, parameter in model.named_parameters():
        turned = parameter.dim() > 1 and ".h." in name
        yield name.removeprefix("transformer."), [parameter], turned


def parts_of_llama(model):
    body = model.model
    yield "wte.weight", [body.embed_tokens.weight], False
    for i, layer in enumerate(body.layers):
        attention, mlp = layer.self_attn, layer.mlp
        yield f"h.{i}.ln_1.weight", [layer.input_layernorm.weight], False
        yield f"h.{i}.attn.c_attn.weight", [each.weight for each in (attention.q_proj, attention.k_proj, attention.v_proj)], False
        yield f"h.{i}.attn.c_proj.weight", [attention.o_proj.weight], False
        yield f"h.{i}.ln_2.weight", [layer.post_attention_layernorm.weight], False
        yield f"h.{i}.mlp.c_fc.weight", [mlp.gate_proj.weight, mlp.up_proj.weight], False
        yield f"h.{i}.mlp.c_proj.weight", [mlp.down_proj.weight], False
    yield "ln_f.weight", [body.norm.weight], False
    yield "lm_head.weight", [model.lm_head.weight], False


def in_layout(parts, turned):
    whole = torch.cat([part.detach() for part in parts])
    return whole.T if turned else whole


def initialise(model, parts_of):
    with torch.no_grad():
        for name, parts, turned in parts_of(model):
            value = torch.from_numpy(initial(name, tuple(in_layout(parts, turned).shape)))
            for part, rows in zip(parts, (value.T if turned else value).split([len(part) for part in parts])):
                part.copy_(rows)


def gradients_of(model, parts_of):
    values = {}
    for name, parts, turned in parts_of(model):
        gradient = in_layout([part.grad for part in parts], turned).double()
        values["gradient_norm/" + name] = gradient.norm()
        values["gradient/" + name] = sampled(name, gradient)
    return values


def batches():
    """Tokens and the tokens after them, [N,T] each. A token follows from the one before it with 3 of 4."""
    drawn = hashed("tokens", STEPS * N * (T + 1)).reshape(STEPS, N, T + 1).astype(np.int64)
    tokens = drawn % WORDS
    for t in range(1, T + 1):
        tokens[..., t] = np.where(drawn[..., t] % 4 == 0, drawn[..., t] // 4 % WORDS, (7 * tokens[..., t - 1] + 3) % WORDS)
    return torch.from_numpy(tokens)


def train(make, parts_of, dtype):
    lowered = is_low(dtype)
    model = make().to(torch.float32 if lowered else dtype).train()
    initialise(model, parts_of)
    optimizer = torch.optim.SGD(model.parameters(), LR)
    values, losses = {}, []
    for step, batch in enumerate(batches()):
        with autocast(dtype):
            logits = model(batch[:, :-1]).logits
        loss = F.cross_entropy((logits.float() if lowered else logits).reshape(-1, WORDS), batch[:, 1:].reshape(-1))
        backward(loss, model, dtype)
        losses.append(loss.item())
        if step == 0:
            values["logits"] = logits.detach().double().transpose(0, 1).contiguous()
            values.update(gradients_of(model, parts_of))
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    return values, torch.tensor(losses, dtype=torch.float64)


def main():
    for name, make, parts_of in (("gpt2", gpt2, parts_of_gpt2), ("llama", llama, parts_of_llama)):
        model = make().double().eval()
        initialise(model, parts_of)
        with torch.no_grad():
            tokens = model.generate(torch.tensor([PROMPT]), max_new_tokens=GREEDY, do_sample=False, pad_token_id=0)[0]
        greedy = tokens[len(PROMPT):].clone()

        def run(dtype):
            values, losses = train(make, parts_of, dtype)
            return {**values, "greedy": greedy.double()}, losses
        store_runs(run, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    sys.exit(main())
