// Layers that change shapes only, and resizing.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/backend.h"
#include "nn/module.h"

namespace tandem::nn {

class Identity final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
  std::string describe() const override { return "Identity"; }
};

// The order in which an image's elements are listed. `hwc` is the order in memory and costs nothing; `chw` is
// PyTorch's, which weights of a following Linear in a PyTorch file expect, and costs a copy.
enum class FlattenOrder : std::uint8_t { hwc, chw };

// [N,…] → [N,rest].
class Flatten final : public Module {
 public:
  explicit Flatten(FlattenOrder order = FlattenOrder::hwc) : order_(order) {}

  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return order_ == FlattenOrder::chw ? "Flatten(chw)" : "Flatten"; }

 private:
  FlattenOrder order_;
};

// [N,…] → [N,extents…]; one extent may be -1: inferred.
class Reshape final : public Module {
 public:
  explicit Reshape(std::vector<Index> extents);

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  std::vector<Index> extents_;
  Index given_elements_ = 1;  // of the extents that are given
};

struct UpsampleOptions {
  std::optional<std::array<Index, 2>> size = {};    // height, width: either this
  std::optional<std::array<double, 2>> scale = {};  // or factors, the result rounded down
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  // bilinear only
  // Whether coordinates follow from the sizes of image and result, rather than from `scale` itself: PyTorch's
  // recompute_scale_factor, which is false there by default. It differs where a scale gives no whole size.
  bool recompute_scale_factor = true;
};

// [N,H,W,C] → [N,H',W',C].
class Upsample final : public Module {
 public:
  explicit Upsample(const UpsampleOptions& options);

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  UpsampleOptions options_;
};

}  // namespace tandem::nn
