#include "autograd/leaf.h"

#include <map>

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
      mark_all_rows();
    } else {
      gradient_ = sum.detach();
    }
    taped_ = sum;
    has_gradient_ = true;
    return;
  }
  taped_ = {};
  if (fixed_ || has_gradient_) {
    // A shared sum must not change under its other holders.
    if (!fixed_ && gradient_.storage()->use_count() > 1) gradient_ = gradient_.clone(MemoryKind::gradients);
    backend.cast(gradient, gradient_, /*accumulate=*/has_gradient_);
    mark_all_rows();
  } else if (gradient.dtype() == meta.dtype && gradient.storage()->use_count() == 1) {
    gradient_ = gradient;
  } else {
    gradient_ = Tensor::empty(meta.shape, {meta.dtype, meta.device, MemoryKind::gradients});
    backend.cast(gradient, gradient_);
  }
  has_gradient_ = true;
}

void Leaf::set_gradient_buffer(const Tensor& buffer, const Tensor& marks) {
  ensure(buffer.shape() == outputs[0].shape && buffer.dtype() == outputs[0].dtype, "leaf",
         "gradient buffer {} does not fit {}", to_string(buffer), to_string(outputs[0].shape));
  ensure(!marks.defined() ||
             (buffer.shape().rank() == 2 && marks.dtype() == DType::u8 && marks.numel() == buffer.size(0)),
         "leaf", "marks {} do not fit the rows of {}", to_string(marks), to_string(buffer));
  gradient_ = buffer;
  marks_ = marks;
  fixed_ = true;
  has_gradient_ = false;
}

void Leaf::set_device(Device device) {
  ensure(!fixed_, "leaf", "a gradient in a flat buffer does not move");
  clear_gradient();
  outputs[0].device = device;
}

void Leaf::mark_all_rows() {
  if (marks_.defined()) backend_for(marks_.device()).fill(marks_, 1.0);
}

GradOutput Leaf::sink(bool marks_rows) {
  if (!fixed_ && !has_gradient_) return {};
  if (!fixed_ && gradient_.storage()->use_count() > 1) return {};
  return {gradient_, has_gradient_, marks_rows ? marks_ : Tensor{}};
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

namespace {

// Working copies of one parameter; an entry marks a range of a storage as a parameter.
struct WorkingCopies {
  struct Copy {
    Tensor tensor;              // absent until requested
    std::uint64_t version = 0;  // of the master's storage, when it was filled
    bool filled = false;
  };
  explicit WorkingCopies(Index elements) : numel(elements) {}

  Index numel;  // elements of the parameter
  Copy f16{}, bf16{};

  Copy& of(DType dtype) { return dtype == DType::f16 ? f16 : bf16; }
};

// Working copies of the non-empty parameters on a storage, by the byte offset of the master.
struct WorkingCopyList final : KeptList {
  static constexpr Kept kKept = Kept::working_copies;
  std::map<std::size_t, WorkingCopies> parameters;
};

// For f32 masters with elements.
void announce_master(const Tensor& master) {
  if (master.dtype() == DType::f32 && master.numel() > 0)
    master.storage()->kept<WorkingCopyList>().parameters.try_emplace(master.offset(), master.numel());
}

// Absent if `master` is not a whole parameter.
WorkingCopies* working_copies_of(const Tensor& master) {
  auto* const list = master.storage()->find_kept<WorkingCopyList>();
  if (!list) return nullptr;
  const auto found = list->parameters.find(master.offset());
  return found != list->parameters.end() && found->second.numel == master.numel() ? &found->second : nullptr;
}

// Renews all copies of the masters on one storage: copies may share a storage too, whose version must not
// change while some of them are saved for backward.
void renew_working_copies(const Tensor& any_master, DType dtype) {
  const Ref<Storage>& storage = any_master.storage();
  const std::uint64_t version = storage->version();
  Storage* bumped = nullptr;
  for (auto& [offset, parameter] : storage->kept<WorkingCopyList>().parameters) {
    WorkingCopies::Copy& copy = parameter.of(dtype);
    if (!copy.tensor.defined() || (copy.filled && copy.version == version)) continue;
    const Tensor master = Tensor::over(storage, offset, copy.tensor.shape(), DType::f32);
    backend_for(master.device()).cast(master, copy.tensor);
    Storage* const target = copy.tensor.storage().get();
    if (target != bumped) target->bump_version();
    bumped = target;
    copy.version = version;
    copy.filled = true;
  }
}

}  // namespace

Tensor working_copy(const Tensor& tensor, DType dtype) {
  ensure(is_16bit(dtype), "parameter", "a working copy is 16-bit, not {}", name_of(dtype));
  if (tensor.dtype() != DType::f32) return {};
  WorkingCopies* const copies = working_copies_of(tensor);
  if (!copies) return {};
  WorkingCopies::Copy& copy = copies->of(dtype);
  if (!copy.tensor.defined())
    copy.tensor = Tensor::empty(tensor.shape(), {dtype, tensor.device(), MemoryKind::weights});
  if (!copy.filled || copy.version != tensor.version()) renew_working_copies(tensor, dtype);
  Tensor result = copy.tensor.viewed(tensor.shape());
  result.set_edge(tensor.edge());
  return result;
}

void set_working_copy(const Parameter& parameter, const Tensor& buffer) {
  ensure(is_16bit(buffer.dtype()) && buffer.numel() == parameter.value().numel(), "parameter",
         "{} is no working copy of {}", to_string(buffer), to_string(parameter.value()));
  if (WorkingCopies* const copies = working_copies_of(parameter.value()))
    copies->of(buffer.dtype()) = {buffer, 0, false};
}

void mark_working_copy_current(const Parameter& parameter, DType dtype) {
  WorkingCopies* const copies = working_copies_of(parameter.value());
  if (!copies) return;
  WorkingCopies::Copy& copy = copies->of(dtype);
  if (copy.filled) copy.version = parameter.value().version();
}

bool has_working_copy(const Tensor& master, DType dtype) {
  WorkingCopies* const copies = master.dtype() == DType::f32 ? working_copies_of(master) : nullptr;
  return copies && copies->of(dtype).filled;
}

void expire_working_copies(const Tensor& master) {
  auto* const list = master.storage()->find_kept<WorkingCopyList>();
  if (!list) return;
  for (auto& [offset, parameter] : list->parameters) parameter.f16.filled = parameter.bf16.filled = false;
}

Parameter::Parameter(const Tensor& initial, ParameterLayout layout) : state_(make_ref<State>(initial)) {
  state_->value = initial.detach();
  announce_master(state_->value);
  state_->layout = layout;
}

Tensor Parameter::tensor() const {
  Tensor tensor = state_->value;
  if (state_->trainable) tensor.set_edge({state_, 0});
  return tensor;
}

void Parameter::to(Device device) {
  if (state_->value.device() == device) return;
  state_->set_device(device);
  state_->value = state_->value.to(device);
  announce_master(state_->value);
}

void Parameter::move_into(const Tensor& value_buffer, const Tensor& gradient_buffer, const Tensor& marks) {
  const Shape& shape = state_->value.shape();
  ensure(value_buffer.dtype() == state_->value.dtype(), "parameter", "a value of {} does not move into {}",
         to_string(state_->value), to_string(value_buffer));
  const Tensor value = value_buffer.viewed(shape);
  backend_for(value.device()).copy_bytes(state_->value, value);
  value.storage()->bump_version();
  state_->value = value;
  announce_master(value);
  state_->set_gradient_buffer(gradient_buffer.viewed(shape), marks);
}

}  // namespace tandem
