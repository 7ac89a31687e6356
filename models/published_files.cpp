#include "models/published_files.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "core/error.h"

namespace tandem::models {

namespace {

struct Mark {
  std::string_view architecture, tensor;
};

constexpr std::array kMarks{
    Mark{"GPT-2", "h.0.attn.c_attn.weight"},
    Mark{"GPT-2", "transformer.h.0.attn.c_attn.weight"},
    Mark{"GPT-2", "_orig_mod.transformer.h.0.attn.c_attn.weight"},
    Mark{"BERT", "encoder.layer.0.attention.self.query.weight"},
    Mark{"BERT", "bert.encoder.layer.0.attention.self.query.weight"},
    Mark{"BERT", "bert.encoder.layer.0.attention.self.query_key_value.weight"},
    Mark{"RoBERTa", "roberta.encoder.layer.0.attention.self.query.weight"},
    Mark{"ELECTRA", "electra.encoder.layer.0.attention.self.query.weight"},
    Mark{"DistilBERT", "transformer.layer.0.attention.q_lin.weight"},
    Mark{"DistilBERT", "distilbert.transformer.layer.0.attention.q_lin.weight"},
    Mark{"Llama", "layers.0.self_attn.q_proj.weight"},
    Mark{"Llama", "model.layers.0.self_attn.q_proj.weight"},
    Mark{"GPT-NeoX", "gpt_neox.layers.0.attention.query_key_value.weight"},
    Mark{"T5", "encoder.block.0.layer.0.SelfAttention.q.weight"},
    Mark{"torch.nn.Transformer", "encoder.layers.0.self_attn.in_proj_weight"},
    Mark{"torch.nn.Transformer", "transformer.encoder.layers.0.self_attn.in_proj_weight"},
    Mark{"torchvision's Vision Transformer", "encoder.layers.encoder_layer_0.self_attention.in_proj_weight"},
    Mark{"Hugging Face's Vision Transformer", "vit.encoder.layer.0.attention.attention.query.weight"}};

const Mark* mark_of(const safetensors::File& file) {
  const auto* const found =
      std::ranges::find_if(kMarks, [&](const Mark& mark) { return file.find(mark.tensor) != nullptr; });
  return found == kMarks.end() ? nullptr : found;
}

void remove_prefix(std::string& name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.erase(0, prefix.size());
}

bool replace(std::string& name, std::string_view from, std::string_view to) {
  const std::size_t at = name.find(from);
  if (at == std::string::npos) return false;
  name.replace(at, from.size(), to);
  return true;
}

std::string gpt2_name(const safetensors::Entry& entry) {
  std::string name = entry.name;
  remove_prefix(name, "_orig_mod.");
  remove_prefix(name, "transformer.");
  return name;
}

// True if the projections of a GPT-2 file are Conv1D layers, [in,out]: its c_attn, which is not square,
// tells.
bool has_conv1d(const safetensors::File& file) {
  for (const safetensors::Entry& entry : file.entries())
    if (gpt2_name(entry) == "h.0.attn.c_attn.weight")
      return entry.extents.size() == 2 && entry.extents[1] % 3 == 0 &&
             entry.extents[0] == entry.extents[1] / 3;
  return false;
}

Index rows_of(const safetensors::File& file, const std::string& name) {
  const safetensors::Entry* const entry = file.find(name);
  return entry && !entry->extents.empty() ? static_cast<Index>(entry->extents[0]) : 0;
}

}  // namespace

std::string_view architecture_of(const safetensors::File& file) {
  const Mark* const mark = mark_of(file);
  return mark ? mark->architecture : "";
}

void require_architecture(const safetensors::File& file, std::string_view wanted) {
  const Mark* const mark = mark_of(file);
  require(!mark || mark->architecture == wanted, file.path(),
          "holds {} (tensor \"{}\"), but the model is {}; use a file of {}, or the model of this file",
          mark ? mark->architecture : "", mark ? mark->tensor : "", wanted, wanted);
}

ForeignNames gpt2_names(const safetensors::File& file) {
  require_architecture(file, "GPT-2");
  return [conv1d = has_conv1d(file)](const safetensors::Entry& entry) -> std::optional<ForeignTensor> {
    ForeignTensor here{gpt2_name(entry)};
    if (here.name.ends_with(".attn.bias") || here.name.ends_with(".attn.masked_bias")) return ForeignTensor{};
    here.transposed =
        conv1d && (here.name.ends_with(".attn.c_attn.weight") || here.name.ends_with(".attn.c_proj.weight") ||
                   here.name.ends_with(".mlp.c_fc.weight") || here.name.ends_with(".mlp.c_proj.weight"));
    return here;
  };
}

ForeignNames llama_names(const safetensors::File& file) {
  require_architecture(file, "Llama");
  std::map<std::string, Index, std::less<>> first_rows;  // of parts of joined parameters
  for (const safetensors::Entry& entry : file.entries()) {
    const auto as = [&](std::string_view part, std::string_view other) {
      std::string name = entry.name;
      replace(name, part, other);
      return name;
    };
    if (entry.name.ends_with("q_proj.weight") || entry.name.ends_with("gate_proj.weight")) {
      first_rows[entry.name] = 0;
    } else if (entry.name.ends_with("k_proj.weight")) {
      first_rows[entry.name] = rows_of(file, as("k_proj", "q_proj"));
    } else if (entry.name.ends_with("v_proj.weight")) {
      first_rows[entry.name] = rows_of(file, as("v_proj", "q_proj")) + rows_of(file, as("v_proj", "k_proj"));
    } else if (entry.name.ends_with("up_proj.weight")) {
      first_rows[entry.name] = rows_of(file, as("up_proj", "gate_proj"));
    }
  }
  return
      [first_rows = std::move(first_rows)](const safetensors::Entry& entry) -> std::optional<ForeignTensor> {
        static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
            {"embed_tokens.", "wte."},
            {"layers.", "h."},
            {"self_attn.q_proj.", "attn.c_attn."},
            {"self_attn.k_proj.", "attn.c_attn."},
            {"self_attn.v_proj.", "attn.c_attn."},
            {"self_attn.o_proj.", "attn.c_proj."},
            {"mlp.gate_proj.", "mlp.c_fc."},
            {"mlp.up_proj.", "mlp.c_fc."},
            {"mlp.down_proj.", "mlp.c_proj."},
            {"input_layernorm.", "ln_1."},
            {"post_attention_layernorm.", "ln_2."}};
        if (entry.name.ends_with("rotary_emb.inv_freq")) return ForeignTensor{};
        ForeignTensor here{entry.name};
        remove_prefix(here.name, "model.");
        if (here.name == "norm.weight") here.name = "ln_f.weight";
        for (const auto& [there, name] : kNames) replace(here.name, there, name);
        if (const auto part = first_rows.find(entry.name); part != first_rows.end())
          here.first_row = part->second;
        return here;
      };
}

ForeignNames bert_names(const safetensors::File& file) {
  require_architecture(file, "BERT");
  return [](const safetensors::Entry& entry) -> std::optional<ForeignTensor> {
    ForeignTensor here{entry.name};
    std::string& name = here.name;
    if (name.ends_with("embeddings.position_ids") || name.ends_with("embeddings.token_type_ids"))
      return ForeignTensor{};
    for (const std::string_view body : {"embeddings.", "encoder.", "pooler."})
      if (name.starts_with(body)) name.insert(0, "bert.");
    replace(name, "LayerNorm.gamma", "LayerNorm.weight");
    replace(name, "LayerNorm.beta", "LayerNorm.bias");
    replace(name, ".dense_act.", ".dense.");
    const Index rows = entry.extents.empty() ? 0 : static_cast<Index>(entry.extents[0]);
    Index first = 0;
    for (const std::string_view part : {".self.query.", ".self.key.", ".self.value."}) {
      if (replace(name, part, ".self.query_key_value.")) here.first_row = first;
      first += rows;
    }
    return here;
  };
}

ForeignNames vit_names(const safetensors::File& file) {
  require_architecture(file, "torchvision's Vision Transformer");
  return [](const safetensors::Entry& entry) -> std::optional<ForeignTensor> {
    ForeignTensor here{entry.name};
    replace(here.name, ".mlp.linear_1.", ".mlp.0.");
    replace(here.name, ".mlp.linear_2.", ".mlp.3.");
    return here;
  };
}

}  // namespace tandem::models
