// Stand-in for core/cuda/dnn_attention.h: attention as direct loops in double precision, rounded once.
// Offered only when a test asks for it (control.h).
#include "core/cuda/dnn_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cuda/cuda_backend.h"
#include "tests/cuda/emulator/call.h"
#include "tests/cuda/emulator/library.h"

namespace tandem::cuda::dnn {

namespace {

using Pointers = std::array<void*, kAttentionTensors>;

class Head {
 public:
  Head(const AttentionGraph& graph, const Pointers& at, Index n, Index h)
      : g_(graph), at_(at), n_(n), h_(h) {}

  double get(AttentionTensor which, Index t, Index d) const {
    return cuda_emulator::load<float>(at_[which], g_.dtype, place(which, t, d));
  }
  void put(AttentionTensor which, Index t, Index d, double value) const {
    cuda_emulator::store(at_[which], g_.dtype, place(which, t, d), static_cast<float>(value));
  }
  float& lse(Index t) const {
    return static_cast<float*>(at_[kLse])[(n_ * g_.size.heads + h_) * g_.size.queries + t];
  }

  bool sees(Index t, Index j) const {
    if (g_.lengths && j >= static_cast<std::int32_t*>(at_[kKeyLengths])[n_]) return false;
    const Index position = t + g_.size.keys - g_.size.queries;
    return !g_.causal || (j <= position && (g_.window == 0 || j > position - g_.window));
  }
  double score(Index t, Index j) const {
    double sum = 0.0;
    for (Index d = 0; d < g_.size.width; ++d) sum += get(kQuery, t, d) * get(kKey, j, d);
    return sum * static_cast<double>(g_.scale);
  }

 private:
  Index place(AttentionTensor which, Index t, Index d) const {
    const bool of_keys = which == kKey || which == kValue || which == kDkey || which == kDvalue;
    const Index head = of_keys ? h_ * g_.size.key_heads / g_.size.heads : h_;
    const auto& p = g_.places[which];
    return n_ * p.text + head * p.head + t * p.token + d;
  }

  const AttentionGraph& g_;
  const Pointers& at_;
  Index n_, h_;
};

void forward(const AttentionGraph& g, const Head& head, double wrong) {
  for (Index t = 0; t < g.size.queries; ++t) {
    std::vector<double> scores;
    double top = -std::numeric_limits<double>::infinity(), total = 0.0;
    for (Index j = 0; j < g.size.keys; ++j) {
      scores.push_back(head.sees(t, j) ? head.score(t, j) : -std::numeric_limits<double>::infinity());
      top = std::max(top, scores.back());
    }
    for (double& s : scores) total += s = std::isinf(top) ? 0.0 : std::exp(s - top);
    for (Index d = 0; d < g.size.value_width; ++d) {
      double sum = 0.0;
      for (Index j = 0; j < g.size.keys; ++j)
        if (scores[static_cast<std::size_t>(j)] > 0.0)
          sum += scores[static_cast<std::size_t>(j)] * head.get(kValue, j, d);
      head.put(kResult, t, d, total == 0.0 ? 0.0 : wrong * sum / total);
    }
    head.lse(t) = static_cast<float>(top + std::log(total));
  }
}

// Adds the contributions of a head of queries to dkey and dvalue.
void backward(const AttentionGraph& g, const Head& head, double wrong) {
  for (Index t = 0; t < g.size.queries; ++t) {
    double dot = 0.0;
    for (Index d = 0; d < g.size.value_width; ++d) dot += head.get(kResult, t, d) * head.get(kDresult, t, d);
    std::vector<double> dquery(static_cast<std::size_t>(g.size.width));
    for (Index j = 0; j < g.size.keys; ++j) {
      if (!head.sees(t, j)) continue;
      const double p = std::exp(head.score(t, j) - static_cast<double>(head.lse(t)));
      double dweight = 0.0;
      for (Index d = 0; d < g.size.value_width; ++d) {
        dweight += head.get(kDresult, t, d) * head.get(kValue, j, d);
        head.put(kDvalue, j, d, head.get(kDvalue, j, d) + p * head.get(kDresult, t, d));
      }
      const double dscore = wrong * p * (dweight - dot) * static_cast<double>(g.scale);
      for (Index d = 0; d < g.size.width; ++d) {
        dquery[static_cast<std::size_t>(d)] += dscore * head.get(kKey, j, d);
        head.put(kDkey, j, d, head.get(kDkey, j, d) + dscore * head.get(kQuery, t, d));
      }
    }
    for (Index d = 0; d < g.size.width; ++d) head.put(kDquery, t, d, dquery[static_cast<std::size_t>(d)]);
  }
}

void compute(const AttentionGraph& g, const Pointers& at, double wrong) {
  for (Index n = 0; n < g.size.texts; ++n) {
    if (g.backward) {
      for (Index h = 0; h < g.size.heads; h += g.size.heads / g.size.key_heads) {
        const Head head(g, at, n, h);
        for (Index j = 0; j < g.size.keys; ++j) {
          for (Index d = 0; d < g.size.width; ++d) head.put(kDkey, j, d, 0.0);
          for (Index d = 0; d < g.size.value_width; ++d) head.put(kDvalue, j, d, 0.0);
        }
      }
    }
    for (Index h = 0; h < g.size.heads; ++h) {
      const Head head(g, at, n, h);
      g.backward ? backward(g, head, wrong) : forward(g, head, wrong);
    }
  }
}

class EmulatedAttention final : public AttentionEngine {
 public:
  EmulatedAttention(CudaBackend& backend, const AttentionGraph& graph) : backend_(backend), graph_(graph) {
    workspace = 64;
  }

  std::string run(const Pointers& addresses, void* room) const override {
    const double wrong = cuda_emulator::are_fusions_wrong() ? 1.5 : 1.0;
    cuda_emulator::enqueue_library(backend_.stream(), "attention", "attention",
                                   [g = graph_, addresses, room, wrong] {
                                     cuda_emulator::fill_with_nan(room, DType::u8, 64);
                                     compute(g, addresses, wrong);
                                   });
    ++cuda_emulator::counters().library_attentions;
    return "";
  }

 private:
  CudaBackend& backend_;
  AttentionGraph graph_;
};

}  // namespace

std::unique_ptr<AttentionEngine> attention_engine(CudaBackend& backend, const AttentionGraph& graph) {
  if (!cuda_emulator::is_attention_offered()) return nullptr;
  return std::make_unique<EmulatedAttention>(backend, graph);
}

std::string validate(const AttentionGraph&) { return ""; }

}  // namespace tandem::cuda::dnn
