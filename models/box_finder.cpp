#include "models/box_finder.h"

#include <exception>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/cpu/parallel.h"

namespace tandem::models {

namespace {

// f32 on the host; no copy if it already is.
Tensor on_host(const Tensor& tensor) { return cast(tensor.detach(), DType::f32).to(Device{}); }

std::span<const float> values_of(const Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

std::vector<std::vector<FoundBox>> find_boxes(const AnchorOutput& output, const Tensor& anchors,
                                              const SuppressionOptions& options) {
  const NoGrad no_grad;
  const Tensor host[] = {on_host(output.scores), on_host(output.codes), on_host(anchors)};
  const std::span scores = values_of(host[0]), codes = values_of(host[1]), grid = values_of(host[2]);
  const auto images = static_cast<std::size_t>(output.scores.size(0));
  const Index classes = output.scores.size(2);
  std::vector<std::vector<FoundBox>> found(images);
  std::vector<std::exception_ptr> errors(images);
  const std::size_t each = images > 0 ? scores.size() / images : 0, boxes = grid.size();
  // Several images take one thread each; a single image is divided.
  cpu::parallel_for(images > 1, images, [&](std::size_t i) {
    try {
      found[i] =
          find_boxes(candidates_of_logits(scores.subspan(i * each, each), classes, options.candidates()),
                     codes.subspan(i * boxes, boxes), grid, options);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return found;
}

}  // namespace tandem::models
