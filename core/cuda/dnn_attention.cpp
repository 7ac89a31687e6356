// cuDNN's graphs of attention, forward and backward.
#include "core/cuda/dnn_attention.h"

#include <cuda_runtime.h>
#include <cudnn_frontend.h>

#include "core/cuda/capture.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/dnn.h"

namespace tandem::cuda::dnn {

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

std::int64_t id_of(AttentionTensor tensor) { return 1 + tensor; }

std::unique_ptr<fe::graph::Graph> describe(const AttentionGraph& g) {
  auto graph = std::make_unique<fe::graph::Graph>();
  graph->set_io_data_type(g.dtype == DType::f16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const AttentionSizes& s = g.size;
  const auto attributes_of = [&](AttentionTensor which, Index heads, Index tokens, Index width) {
    const auto& place = g.places[which];
    return Tensor_attributes()
        .set_uid(id_of(which))
        .set_dim({s.texts, heads, tokens, width})
        .set_stride({place.text, place.head, place.token, 1});
  };
  const auto operand = [&](AttentionTensor which, Index heads, Index tokens, Index width) {
    return graph->tensor(attributes_of(which, heads, tokens, width));
  };
  const auto lengths = [&](AttentionTensor which) {
    return graph->tensor(Tensor_attributes()
                             .set_uid(id_of(which))
                             .set_dim({s.texts, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  };
  const auto stats = [&](const TensorPtr& tensor) {
    tensor->set_uid(id_of(kLse))
        .set_dim({s.texts, s.heads, s.queries, 1})
        .set_stride({s.heads * s.queries, s.queries, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  };
  const auto result = [&](const TensorPtr& tensor, AttentionTensor which, Index heads, Index tokens,
                          Index width) {
    const auto& place = g.places[which];
    tensor->set_output(true)
        .set_uid(id_of(which))
        .set_dim({s.texts, heads, tokens, width})
        .set_stride({place.text, place.head, place.token, 1});
  };
  const auto with_mask = [&](auto&& options) {
    options.set_attn_scale(g.scale);
    if (g.causal) {
      options.set_diagonal_alignment(s.queries == s.keys ? fe::DiagonalAlignment_t::TOP_LEFT
                                                         : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
      options.set_diagonal_band_right_bound(0);
      if (g.window > 0) options.set_diagonal_band_left_bound(static_cast<int>(g.window));
    }
    if (g.lengths) {
      options.set_padding_mask(true);
      options.set_seq_len_q(lengths(kQueryLengths));
      options.set_seq_len_kv(lengths(kKeyLengths));
    }
    return options;
  };
  const TensorPtr query = operand(kQuery, s.heads, s.queries, s.width),
                  key = operand(kKey, s.key_heads, s.keys, s.width),
                  value = operand(kValue, s.key_heads, s.keys, s.value_width);
  if (!g.backward) {
    const auto [out, lse] =
        graph->sdpa(query, key, value, with_mask(fe::graph::SDPA_attributes().set_generate_stats(true)));
    result(out, kResult, s.heads, s.queries, s.value_width);
    stats(lse);
    lse->set_output(true);
    return graph;
  }
  const TensorPtr out = operand(kResult, s.heads, s.queries, s.value_width),
                  dout = operand(kDresult, s.heads, s.queries, s.value_width),
                  lse = graph->tensor(Tensor_attributes());
  stats(lse);
  const auto [dquery, dkey, dvalue] = graph->sdpa_backward(
      query, key, value, out, dout, lse,
      with_mask(fe::graph::SDPA_backward_attributes().set_deterministic_algorithm(true)));
  result(dquery, kDquery, s.heads, s.queries, s.width);
  result(dkey, kDkey, s.key_heads, s.keys, s.width);
  result(dvalue, kDvalue, s.key_heads, s.keys, s.value_width);
  return graph;
}

// Versions with wrong results, as their users reported.
bool is_refused(const AttentionGraph& g) {
  const std::size_t version = cudnnGetVersion();  // 10000·major + 100·minor + patch
  if (version >= 91000 && version <= 91001) return true;
  return version == 91400 && g.window > 0 && g.size.keys > 1024;
}

class SdpaEngine final : public AttentionEngine {
 public:
  SdpaEngine(std::shared_ptr<cudnnContext> handle, std::unique_ptr<fe::graph::Graph> graph, bool lengths,
             bool backward)
      : handle_(std::move(handle)), graph_(std::move(graph)), lengths_(lengths), backward_(backward) {}

  bool build() {
    if (graph_->build(handle_.get(), {fe::HeurMode_t::A}).is_bad()) return false;
    return graph_->get_workspace_size(workspace).is_good();
  }

  std::string run(const std::array<void*, kAttentionTensors>& addresses, void* room) const override {
    std::unordered_map<std::int64_t, void*> places;
    for (const AttentionTensor tensor : {kQuery, kKey, kValue, kResult, kLse, kQueryLengths, kKeyLengths,
                                         kDresult, kDquery, kDkey, kDvalue}) {
      if ((tensor == kQueryLengths || tensor == kKeyLengths) && !lengths_) continue;
      if (tensor >= kDresult && !backward_) continue;
      places[id_of(tensor)] = addresses[tensor];
    }
    auto status = graph_->execute(handle_.get(), places, room);
    return status.is_good() ? "" : status.get_message();
  }

 private:
  std::shared_ptr<cudnnContext> handle_;
  std::unique_ptr<fe::graph::Graph> graph_;
  bool lengths_, backward_;
};

}  // namespace

std::unique_ptr<AttentionEngine> attention_engine(CudaBackend& backend, const AttentionGraph& graph) {
  if (is_refused(graph)) return nullptr;
  const RelaxedCapture relaxed;
  auto engine =
      std::make_unique<SdpaEngine>(backend.dnn().handle(), describe(graph), graph.lengths, graph.backward);
  if (!engine->build()) return nullptr;
  return engine;
}

std::string validate(const AttentionGraph& graph) {
  auto status = describe(graph)->validate();
  return status.is_good() ? "" : status.get_message();
}

}  // namespace tandem::cuda::dnn
