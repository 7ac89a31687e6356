// Attention of a decoder on the words that an encoder has read.
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

// What an encoder has left of N sentences, for a decoder to look at.
struct SequenceMemory {
  Tensor values;   // [S,N,C]
  Tensor keys;     // [S,N,A]; of luong_dot the values themselves
  Tensor lengths;  // words of each, i64 [N] in host memory, or absent: all S
};

// Parameters are called as in NVIDIA's GNMT v2: linear_q.weight, linear_k.weight, linear_att,
// normalize_scalar, normalize_bias, as far as the kind has them.
class SequenceAttention final : public nn::Module {
 public:
  // A is `units`. Throws UserError where luong_dot has values of another size than the queries.
  SequenceAttention(AttentionKind kind, Index queries, Index values, Index units);

  // Once for all queries.
  SequenceMemory memory(const Tensor& values, const Tensor& lengths);
  // Queries [T,N·W,Q], T or W being 1: those of a sentence side by side → context [T,N·W,C] and weights
  // [T,N·W,S]. The memory is not copied for each of the W.
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
