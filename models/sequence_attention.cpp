#include "models/sequence_attention.h"

#include <cmath>

#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "nn/init.h"

namespace tandem::models {

namespace {

constexpr nn::LinearOptions kNoBias{.bias = false};

// [1,N·W,Q] → [W,N,Q]: a sentence's queries as if they were steps.
Tensor side_by_side(const Tensor& rows, Index sentences) {
  const Index width = rows.size(1) / sentences;
  return transpose(reshape(rows, {sentences, width, rows.size(2)}), 0, 1);
}

// The inverse: [W,N,C] → [1,N·W,C].
Tensor in_rows(const Tensor& x) { return reshape(transpose(x, 0, 1), {1, x.size(0) * x.size(1), x.size(2)}); }

}  // namespace

SequenceAttention::SequenceAttention(AttentionKind kind, Index queries, Index values, Index units)
    : kind_(kind) {
  const bool normalised = kind == AttentionKind::bahdanau_normalised;
  if (normalised || kind == AttentionKind::bahdanau) {
    linear_q_ = add_child("linear_q", std::make_shared<nn::Linear>(queries, units, kNoBias));
    linear_k_ = add_child("linear_k", std::make_shared<nn::Linear>(values, units, kNoBias));
    const Tensor v = nn::parameter_memory({units});
    const double bound = 1.0 / std::sqrt(static_cast<double>(units));
    nn::init::uniform(v, -bound, bound);
    linear_att_ = add_parameter("linear_att", Parameter(v));
    if (!normalised) return;
    const Tensor g = nn::parameter_memory({1}), b = nn::parameter_memory({units});
    nn::init::constant(g, bound);
    nn::init::zeros(b);
    normalize_scalar_ = add_parameter("normalize_scalar", Parameter(g));
    normalize_bias_ = add_parameter("normalize_bias", Parameter(b));
  } else if (kind == AttentionKind::luong_general) {
    linear_k_ = add_child("linear_k", std::make_shared<nn::Linear>(values, queries, kNoBias));
  } else {
    require(
        queries == values, "encoder_decoder",
        "attention luong_dot needs queries and encoder outputs of one size, got {} and {}; use luong_general",
        queries, values);
  }
}

SequenceMemory SequenceAttention::memory(const Tensor& values, const Tensor& lengths) {
  return {values, linear_k_ ? (*linear_k_)(values) : values, lengths};
}

AttentionResult SequenceAttention::operator()(const Tensor& queries, const SequenceMemory& memory) {
  return observed([&] { return run(queries, memory); });
}

AttentionResult SequenceAttention::run(const Tensor& queries, const SequenceMemory& memory) {
  const Index sentences = memory.values.size(1), rows = queries.size(1);
  const bool alone = rows == sentences;
  require(alone || (queries.size(0) == 1 && rows % std::max<Index>(sentences, 1) == 0), "encoder_decoder",
          "{} rows of {} steps cannot be divided among {} sentences", rows, queries.size(0), sentences);
  const Tensor asked = alone ? queries : side_by_side(queries, sentences);
  const bool adds = kind_ == AttentionKind::bahdanau || kind_ == AttentionKind::bahdanau_normalised;
  const AttentionResult found = adds ? additive(asked, memory) : multiplicative(asked, memory);
  if (alone) return found;
  return {in_rows(found.context), in_rows(found.weights)};
}

AttentionResult SequenceAttention::additive(const Tensor& queries, const SequenceMemory& memory) {
  return additive_attention(
      (*linear_q_)(queries), memory.keys, memory.values,
      {linear_att_.tensor(), tensor_if_defined(normalize_scalar_), tensor_if_defined(normalize_bias_)},
      {.lengths = memory.lengths});
}

AttentionResult SequenceAttention::multiplicative(const Tensor& queries, const SequenceMemory& memory) {
  const Tensor scores =
      matmul(transpose(queries, 0, 1), transpose(memory.keys, 0, 1), false, /*transpose_b=*/true);
  const Tensor weights = masked_softmax(scores, {.lengths = memory.lengths});  // [N,T,S]
  return {transpose(bmm(weights, transpose(memory.values, 0, 1)), 0, 1), transpose(weights, 0, 1)};
}

std::string SequenceAttention::describe() const {
  constexpr const char* kNames[] = {"normalised, Bahdanau", "Bahdanau", "Luong, general", "Luong, dot"};
  return fmt::format("SequenceAttention({})", kNames[static_cast<int>(kind_)]);
}

}  // namespace tandem::models
