// Weight files of published Transformers: their architecture, names and layouts.
#pragma once

#include <string_view>

#include "models/foreign_names.h"

namespace tandem::models {

// "GPT-2", "BERT", "Llama", …: by the name of a tensor that only this architecture has; "" if unknown.
std::string_view architecture_of(const safetensors::File& file);
// Throws UserError that names the file's architecture if it is known and another one.
void require_architecture(const safetensors::File& file, std::string_view wanted);

// The mappings below throw UserError for a file of another known architecture.

// GPT-2 of Hugging Face or nanoGPT, with or without "transformer." before the names, to names without it
// ("h.0.attn.c_attn.weight", "lm_head.weight"). Hugging Face's Conv1D layers store [in,out]: the file is of
// this kind if its c_attn.weight is [C,3C], and then the matrices of all four projections are transposed.
// Masks (attn.bias, attn.masked_bias) are ignored.
ForeignNames gpt2_names(const safetensors::File& file);

// Llama of Hugging Face, to the names of GPT-2. Queries, keys and values of a layer become "attn.c_attn",
// gates and the inputs that they scale "mlp.c_fc".
ForeignNames llama_names(const safetensors::File& file);

// BERT of Hugging Face ("LayerNorm.gamma" and "beta" in old files; names of the body with or without "bert.")
// or NVIDIA ("dense_act"), to names with "bert.". Queries, keys and values of a layer become one parameter
// "attention.self.query_key_value". embeddings.position_ids is ignored.
ForeignNames bert_names(const safetensors::File& file);

// Vision Transformer of torchvision; its first files call the layers of an MLP linear_1 and linear_2.
ForeignNames vit_names(const safetensors::File& file);

}  // namespace tandem::models
