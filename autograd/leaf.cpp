#include "autograd/leaf.h"

#include "autograd/ops/elementwise.h"
#include "core/error.h"

namespace tandem {

Leaf::Leaf(const Tensor& value) {
  require(value.defined() && is_floating(value.dtype()), "leaf",
          "only floating tensors have gradients, got {}", to_string(value));
  outputs.push_back({value.shape(), value.dtype(), value.device()});
}

const OpInfo& Leaf::info() const {
  static constexpr OpInfo info{"leaf", CastRule::none};
  return info;
}

void Leaf::backward(std::span<Tensor>, std::span<Tensor>, const Needs&) {
  throw InternalError("engine", "a leaf has no inputs to differentiate");
}

void Leaf::accumulate(const Tensor& gradient, bool create_graph) {
  const OutputMeta& meta = outputs[0];
  require(gradient.shape() == meta.shape && gradient.device() == meta.device, "leaf",
          "a gradient of {} on {} does not fit a leaf of {}{} on {}", to_string(gradient),
          to_string(gradient.device()), name_of(meta.dtype), to_string(meta.shape), to_string(meta.device));
  Backend& backend = backend_for(meta.device);
  if (create_graph) {
    const Tensor narrowed = cast(gradient, meta.dtype);
    const Tensor sum = has_gradient_ ? add(this->gradient(), narrowed) : narrowed;
    if (fixed_) {
      backend.copy_bytes(sum.detach(), gradient_);
    } else {
      gradient_ = sum.detach();
    }
    taped_ = sum;
    has_gradient_ = true;
    return;
  }
  taped_ = {};
  if (fixed_ || has_gradient_) {
    // A sum that others hold must not change under them.
    if (!fixed_ && gradient_.storage()->use_count() > 1) gradient_ = gradient_.clone(MemoryKind::gradients);
    backend.cast(gradient, gradient_, /*accumulate=*/has_gradient_);
  } else if (gradient.dtype() == meta.dtype && gradient.storage()->use_count() == 1) {
    gradient_ = gradient;
  } else {
    gradient_ = Tensor::empty(meta.shape, {meta.dtype, meta.device, MemoryKind::gradients});
    backend.cast(gradient, gradient_);
  }
  has_gradient_ = true;
}

void Leaf::set_gradient_buffer(const Tensor& buffer) {
  ensure(buffer.shape() == outputs[0].shape && buffer.dtype() == outputs[0].dtype, "leaf",
         "gradient buffer {} does not fit {}", to_string(buffer), to_string(outputs[0].shape));
  gradient_ = buffer;
  fixed_ = true;
  has_gradient_ = false;
}

Destination Leaf::sink() {
  if (!fixed_ && !has_gradient_) return {};
  if (!fixed_ && gradient_.storage()->use_count() > 1) return {};
  return {gradient_, has_gradient_};
}

Tensor leaf(const Tensor& value) {
  Tensor tensor = value.detach();
  tensor.set_edge({make_ref<Leaf>(tensor), 0});
  return tensor;
}

namespace {
Leaf& leaf_behind(const Tensor& tensor) {
  auto* node = dynamic_cast<Leaf*>(tensor.edge().node.get());
  require(node != nullptr, "gradient", "{} is not a leaf; only leaves keep gradients", to_string(tensor));
  return *node;
}
}  // namespace

Tensor gradient_of(const Tensor& leaf) { return leaf_behind(leaf).gradient(); }
void clear_gradient_of(const Tensor& leaf) { leaf_behind(leaf).clear_gradient(); }

Parameter::Parameter(const Tensor& initial, ParameterLayout layout) : state_(make_ref<State>(initial)) {
  state_->value = initial.detach();
  state_->layout = layout;
}

Tensor Parameter::tensor() const {
  Tensor tensor = state_->value;
  if (state_->trainable) tensor.set_edge({state_, 0});
  return tensor;
}

void Parameter::move_into(const Tensor& value_buffer, const Tensor& gradient_buffer) {
  const Shape& shape = state_->value.shape();
  ensure(value_buffer.dtype() == state_->value.dtype(), "parameter", "a value of {} does not move into {}",
         to_string(state_->value), to_string(value_buffer));
  const Tensor value = value_buffer.viewed(shape);
  backend_for(value.device()).copy_bytes(state_->value, value);
  value.storage()->bump_version();
  state_->value = value;
  state_->set_gradient_buffer(gradient_buffer.viewed(shape));
}

}  // namespace tandem
