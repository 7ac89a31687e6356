// One forward in f32 with all its values, and the types that a precision gives each op.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "amp/autocast.h"
#include "amp/plan/graph.h"
#include "core/tensor.h"
#include "nn/module.h"

namespace tandem::amp {

// A constant of an op.
struct ScalarOfOp {
  enum class Use : std::uint8_t {
    added,   // to every element, or the lower bound of one
    factor,  // multiplies every element
    filled,  // fills places beside the elements
  };
  double value = 0.0;
  Use use = Use::added;
};

struct WatchedOp {
  plan::OpKey key;
  const OpInfo* info = nullptr;
  TensorList inputs, outputs;                    // of the f32 forward
  std::vector<DType> input_types, output_types;  // of `inputs` and `outputs` under the precision
  std::vector<ScalarOfOp> scalars;
};

// Range of the finite values of a tensor, including zero: low <= 0 <= high.
struct ValueRange {
  float low = 0.0f, high = 0.0f;
  float least = 0.0f;  // smallest non-zero magnitude
  bool finite = true;  // all values are finite
  bool integral = true;

  float amax() const { return std::max(-low, high); }
};

class WatchedForward {
 public:
  // Calls the forward of each phase twice, in f32 and under `resolved`. Running statistics are restored;
  // random numbers are the forward's own. Ops that run in only one of the two are left out.
  WatchedForward(nn::Module& model, const ResolvedPrecision& resolved,
                 const std::vector<std::function<Tensor()>>& phases);

  const std::vector<WatchedOp>& ops() const { return ops_; }
  // The op that made a tensor and the index of that output; nullptr: none.
  const WatchedOp* maker_of(const Tensor& tensor) const;
  // The 16-bit type in which a floating tensor is written or read, if any.
  std::optional<DType> stored(const Tensor& tensor) const;
  // The path of a parameter; "" for another tensor.
  std::string parameter(const Tensor& tensor) const;
  // Scans a floating tensor (cached).
  const ValueRange& range(const Tensor& tensor) const;

 private:
  using Name = std::tuple<const void*, std::size_t, Index>;
  static Name name_of(const Tensor& tensor) {
    return {tensor.storage().get(), tensor.offset(), tensor.numel()};
  }
  void watch(nn::Module& model, const ResolvedPrecision& resolved, std::size_t phase,
             const std::function<Tensor()>& forward);

  std::vector<WatchedOp> ops_;
  std::map<Name, std::size_t> makers_;
  std::map<Name, DType> stored_;
  std::map<Name, std::string> parameters_;
  mutable std::map<Name, ValueRange> ranges_;
};

}  // namespace tandem::amp
