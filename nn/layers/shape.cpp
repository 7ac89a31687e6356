#include "nn/layers/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::nn {

Tensor Flatten::forward(const Tensor& x) {
  require(x.rank() >= 2, "flatten", "expects [N,…], input is {}", to_string(x.shape()));
  if (x.rank() == 2) return x;
  // Explicit extents, because none can be inferred from an empty batch.
  const Shape flat{x.size(0), x.shape().product(1, x.rank())};
  if (order_ == FlattenOrder::hwc) return reshape(x, flat);
  std::vector<int> order{0, x.rank() - 1};
  for (int axis = 1; axis < x.rank() - 1; ++axis) order.push_back(axis);
  return reshape(permute(x, order), flat);
}

Reshape::Reshape(std::vector<Index> extents) : extents_(std::move(extents)) {
  const auto inferred = std::ranges::count(extents_, Index{-1});
  const bool valid = std::ranges::all_of(extents_, [](Index extent) { return extent > 0 || extent == -1; });
  require(valid && inferred <= 1, "reshape", "extents must be positive, except one -1, got {}",
          fmt::join(extents_, ","));
  std::vector<Index> given = extents_;
  std::erase(given, Index{-1});
  given_elements_ = Shape(std::span<const Index>(given)).numel();
}

Tensor Reshape::forward(const Tensor& x) {
  require(x.rank() >= 1, "reshape", "expects [N,…], input is {}", to_string(x.shape()));
  const Index elements = x.shape().product(1, x.rank());
  std::vector<Index> extents{x.size(0)};
  bool inferred = false;
  for (Index extent : extents_) {
    inferred |= extent == -1;
    extents.push_back(extent > 0 ? extent : elements / given_elements_);
  }
  require(inferred ? elements % given_elements_ == 0 : elements == given_elements_, "reshape",
          "{} elements per sample do not fit [{}], input is {}", elements, fmt::join(extents_, ","),
          to_string(x.shape()));
  return reshape(x, std::move(extents));
}

std::string Reshape::describe() const { return fmt::format("Reshape([{}])", fmt::join(extents_, ",")); }

Upsample::Upsample(const UpsampleOptions& options) : options_(options) {
  require(options.size.has_value() != options.scale.has_value(), "upsample",
          "needs either a size or a scale");
  if (options.size)
    require((*options.size)[0] > 0 && (*options.size)[1] > 0, "upsample",
            "a size must be positive, got {}×{}", (*options.size)[0], (*options.size)[1]);
  if (options.scale)
    require((*options.scale)[0] > 0 && (*options.scale)[1] > 0, "upsample",
            "a scale must be positive, got {}×{}", (*options.scale)[0], (*options.scale)[1]);
}

Tensor Upsample::forward(const Tensor& x) {
  require(x.rank() == 4, "upsample", "expects [N,H,W,C], input is {}", to_string(x.shape()));
  if (options_.size)
    return resize2d(x, (*options_.size)[0], (*options_.size)[1], {options_.mode, options_.align_corners});
  const auto& scale = *options_.scale;
  const auto scaled = [&](int axis) {
    return static_cast<Index>(std::floor(static_cast<double>(x.size(axis + 1)) * scale[axis]));
  };
  ResizeOptions resize{options_.mode, options_.align_corners};
  if (!options_.recompute_scale_factor) resize.scale = scale;
  return resize2d(x, scaled(0), scaled(1), resize);
}

std::string Upsample::describe() const {
  const char* mode = options_.mode == ResizeMode::nearest ? "nearest" : "bilinear";
  if (options_.size)
    return fmt::format("Upsample(to {}×{}, {})", (*options_.size)[0], (*options_.size)[1], mode);
  return fmt::format("Upsample(by {}×{}, {})", (*options_.scale)[0], (*options_.scale)[1], mode);
}

}  // namespace tandem::nn
