// One forward in f32, held with all its values, beside the types that a precision would give each op of it.
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

// A constant that an op is made with.
struct ScalarOfOp {
  enum class Use : std::uint8_t {
    added,   // to every element, or the least that one may be
    factor,  // of every element
    filled,  // what is put beside the elements
  };
  double value = 0.0;
  Use use = Use::added;
};

struct WatchedOp {
  plan::OpKey key;
  const OpInfo* info = nullptr;
  TensorList inputs, outputs;                    // of the f32 forward
  std::vector<DType> input_types, output_types;  // under the precision, of `inputs` and `outputs`
  std::vector<ScalarOfOp> scalars;
};

// Of the finite values of a tensor, and zero: low <= 0 <= high.
struct ValueRange {
  float low = 0.0f, high = 0.0f;
  float least = 0.0f;  // least magnitude but zero
  bool finite = true;  // all of them
  bool integral = true;

  float amax() const { return std::max(-low, high); }
};

class WatchedForward {
 public:
  // Calls the forward of each phase twice, in f32 and under `plan`. Running statistics are left alone, and
  // random numbers are theirs to give. Ops that run in one of the two only are left out.
  WatchedForward(nn::Module& model, const ResolvedPrecision& plan,
                 const std::vector<std::function<Tensor()>>& phases);

  const std::vector<WatchedOp>& ops() const { return ops_; }
  // The op that made a tensor, and which of its outputs that is; nullptr: none did.
  const WatchedOp* maker_of(const Tensor& tensor) const;
  // The 16-bit type in which a floating tensor is stored by who makes it or read by who takes it, if any.
  std::optional<DType> stored(const Tensor& tensor) const;
  // The path of a parameter; "" of another tensor.
  std::string parameter(const Tensor& tensor) const;
  // Scans a floating tensor, once.
  const ValueRange& range(const Tensor& tensor) const;

 private:
  using Name = std::tuple<const void*, std::size_t, Index>;
  static Name name_of(const Tensor& tensor) {
    return {tensor.storage().get(), tensor.offset(), tensor.numel()};
  }
  void watch(nn::Module& model, const ResolvedPrecision& plan, std::size_t phase,
             const std::function<Tensor()>& forward);

  std::vector<WatchedOp> ops_;
  std::map<Name, std::size_t> makers_;
  std::map<Name, DType> stored_;
  std::map<Name, std::string> parameters_;
  mutable std::map<Name, ValueRange> ranges_;
};

}  // namespace tandem::amp
