// Attention of a decoder over encoder outputs.
#pragma once

#include <memory>

#include "autograd/ops/attention.h"
#include "nn/layers/linear.h"

namespace tandem::models {

enum class AttentionKind : std::uint8_t {
  bahdanau_normalised,  // g·v/‖v‖·tanh(W_q q + W_k k + b)   Bahdanau et al. 2015, Salimans and Kingma 2016
  bahdanau,             // v·tanh(W_q q + W_k k)
  luong_general,        // q·W_k k                            Luong et al. 2015
  luong_dot,            // q·k
};

// Encoder outputs of N sentences, prepared for attention.
struct SequenceMemory {
  Tensor values;   // [S,N,C]
  Tensor keys;     // [S,N,A]; with luong_dot the values themselves
  Tensor lengths;  // words of each, i64 [N] in host memory, or absent: all S
};

// Parameters are named as in NVIDIA's GNMT v2, depending on the kind: linear_q.weight, linear_k.weight,
// linear_att, normalize_scalar, normalize_bias.
class SequenceAttention final : public nn::Module {
 public:
  // A is `units`. Throws UserError if luong_dot's values and queries differ in size.
  SequenceAttention(AttentionKind kind, Index queries, Index values, Index units);

  // Computed once for all queries.
  SequenceMemory memory(const Tensor& values, const Tensor& lengths);
  // Queries [T,N·W,Q] (T or W is 1; a sentence's W rows are adjacent) → context [T,N·W,C] and weights
  // [T,N·W,S]. The memory is not copied W times.
  AttentionResult operator()(const Tensor& queries, const SequenceMemory& memory);
  std::string describe() const override;

 private:
  AttentionResult run(const Tensor& queries, const SequenceMemory& memory);
  AttentionResult additive(const Tensor& queries, const SequenceMemory& memory);
  AttentionResult multiplicative(const Tensor& queries, const SequenceMemory& memory);

  AttentionKind kind_;
  std::shared_ptr<nn::Linear> linear_q_, linear_k_;
  Parameter linear_att_, normalize_scalar_, normalize_bias_;
};

}  // namespace tandem::models
