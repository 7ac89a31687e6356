// Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929): a Transformer encoder of the patches of an
// image.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "models/foreign_names.h"
#include "nn/layers/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/transformer_block.h"

namespace tandem::models {

// The defaults are torchvision's vit_b_16.
struct VitOptions {
  Index in_channels = 3, num_classes = 1000;
  std::array<Index, 2> image{224, 224};  // height and width, multiples of `patch`
  Index patch = 16;                      // side of a patch
  Index layers = 12, width = 768, heads = 12;
  Index inner = 0;                 // width of the perceptrons; 0: 4·width
  double dropout = 0.0;            // of tokens with their positions, of branches, and after GELU
  double attention_dropout = 0.0;  // of attention weights
  double eps = 1e-6;               // of layer norms
  nn::Recompute recompute = nn::Recompute::none;
};

// [N,H,W,C] → [N,num_classes]. Tokens are a class token, which the head reads, and the patches, row by row.
// Parameters have torchvision's names and initialisation: class_token, conv_proj, encoder.pos_embedding,
// encoder.layers.encoder_layer_{i}.{ln_1, self_attention, ln_2, mlp.0, mlp.3}, encoder.ln and heads.head. The
// head starts at 0.
class Vit final : public nn::Module, public ReadsForeignFiles {
 public:
  // Throws UserError for sizes below 1, patches that do not tile the image, and heads that do not divide the
  // width.
  explicit Vit(const VitOptions& options);

  Tensor forward(const Tensor& images) override;
  std::string describe() const override;
  ForeignNames foreign_names(const safetensors::File& file) const override;

  const VitOptions& options() const { return options_; }

 private:
  Tensor tokens(const Tensor& images);

  VitOptions options_;
  Parameter class_token_, positions_;
  std::shared_ptr<nn::Conv2d> conv_proj_;
  std::vector<std::shared_ptr<nn::TransformerBlock>> layers_;
  std::shared_ptr<nn::FeatureNorm> ln_;
  std::shared_ptr<nn::Linear> head_;
};

}  // namespace tandem::models
