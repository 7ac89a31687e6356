// Attention by fused kernels of a library, without its headers: cuDNN's sdpa graphs (dnn_attention.cpp), and
// a stand-in in tests.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/kernels/attention.h"

namespace tandem::cuda {

class CudaBackend;

namespace dnn {

// Tensors of an engine. Lengths are i32 [N]; those of queries are all Tq.
enum AttentionTensor : std::uint8_t {
  kQuery,
  kKey,
  kValue,
  kResult,
  kLse,
  kQueryLengths,
  kKeyLengths,
  kDresult,
  kDquery,
  kDkey,
  kDvalue,
  kAttentionTensors
};

// A problem, whose tensors are 16-bit. Causal masks align at the end.
struct AttentionGraph {
  bool backward = false;
  AttentionSizes size;
  DType dtype = DType::bf16;
  float scale = 1.0f;
  bool causal = false, lengths = false;
  Index window = 0;  // 0: none
  struct Place {
    Index text = 0, head = 0, token = 0;  // distances in elements
  };
  std::array<Place, kAttentionTensors> places{};
};

class AttentionEngine {
 public:
  virtual ~AttentionEngine() = default;
  // Enqueues the work on the backend's stream. `room` has `workspace` bytes and is aligned to 256. Returns an
  // error text, or "".
  virtual std::string run(const std::array<void*, kAttentionTensors>& addresses, void* room) const = 0;

  std::int64_t workspace = 0;
};

// nullptr if the library has no engine for the problem.
std::unique_ptr<AttentionEngine> attention_engine(CudaBackend& backend, const AttentionGraph& graph);

// Builds the library's description of the problem and lets it validate it, without a device. Returns an error
// text, or "".
std::string validate(const AttentionGraph& graph);

}  // namespace dnn
}  // namespace tandem::cuda
