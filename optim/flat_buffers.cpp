#include "optim/flat_buffers.h"

#include "core/backend.h"
#include "core/error.h"

namespace tandem::optim {

namespace {
constexpr Index kAlignment = 64 / sizeof(float);  // elements
}

FlatBuffers::FlatBuffers(const std::vector<Parameter>& parameters) {
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (!p->trainable()) continue;
    require(p->value().dtype() == DType::f32, "step",
            "parameter {} is {}; masters are f32: build the model in f32; the policy chooses the precision",
            p->name(), to_string(p->value()));
    const Parameter& first = slots_.empty() ? *p : slots_[0].parameter;
    require(p->value().device() == first.value().device(), "step",
            "parameter {} is on {}, {} is on {}: one step works on one device", p->name(),
            to_string(p->value().device()), first.name(), to_string(first.value().device()));
    slots_.push_back({*p, length_, p->value().numel()});
    length_ += (p->value().numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  require(!slots_.empty(), "step", "nothing to train: none of {} parameters is trainable", parameters.size());

  const Device on = slots_[0].parameter.value().device();
  masters_ = Tensor::zeros({length_}, {DType::f32, on, MemoryKind::masters});
  gradients_ = Tensor::zeros({length_}, {DType::f32, on, MemoryKind::gradients});
}

void FlatBuffers::mark_rows_of(std::size_t slot) {
  slots_[slot].marks =
      Tensor::zeros({slots_[slot].parameter.value().size(0)}, {DType::u8, device(), MemoryKind::gradients});
}

void FlatBuffers::attach() {
  for (Slot& slot : slots_)
    slot.parameter.move_into(range(masters_, slot), range(gradients_, slot), slot.marks);
}

Tensor FlatBuffers::make(MemoryKind kind) const {
  return Tensor::zeros({length_}, {DType::f32, device(), kind});
}

Tensor FlatBuffers::range(const Tensor& buffer, const Slot& slot) const {
  return buffer.rows(slot.first, slot.count).viewed(slot.parameter.value().shape());
}

void FlatBuffers::check_attached() const {
  for (const Slot& slot : slots_)
    require(slot.parameter.value().shares_storage(masters_), "step",
            "parameter {} now belongs to another step; a parameter is trained by one step at a time",
            slot.parameter.name());
}

}  // namespace tandem::optim
