// Layers that change shapes, and resizing.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/op_options.h"
#include "nn/module.h"

namespace tandem::nn {

class Identity final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

// Order of an image's elements. `hwc`, the order in memory, is free; `chw`, which a following Linear with
// weights from PyTorch expects, needs a copy.
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

// [N,…] → [N,extents…]; one extent may be -1 (inferred).
class Reshape final : public Module {
 public:
  explicit Reshape(std::vector<Index> extents);

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  std::vector<Index> extents_;
  Index given_elements_ = 1;  // product of the explicit extents
};

struct UpsampleOptions {
  std::optional<std::array<Index, 2>> size = {};    // height, width; either size or scale
  std::optional<std::array<double, 2>> scale = {};  // factors; the result is rounded down
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  // bilinear only
  // Compute coordinates from the sizes of image and result instead of `scale`: PyTorch's
  // recompute_scale_factor, whose default is false. It matters if the scaled size is not whole.
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
