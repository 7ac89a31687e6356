#include "optim/step/optimizer_state.h"

#include <algorithm>

#include "core/backend.h"
#include "core/error.h"

namespace tandem::optim {

namespace {

constexpr Index kDeclaredAlignment = 64 / sizeof(float);  // elements

Tensor view(const Tensor& flat, Index first, const Shape& shape) {
  return flat.rows(first, shape.numel()).viewed(shape);
}

}  // namespace

OptimizerState::OptimizerState(const FlatBuffers& buffers, const std::vector<Owner>& owners,
                               const UpdateParts* parts)
    : buffers_(buffers), parts_(parts) {
  const auto& slots = buffers.slots();
  struct Initial {
    std::size_t slot, place;
    double value;
  };
  std::vector<Initial> initial;
  std::vector<Index> ends;  // of the tensors declared for each slot and those before
  std::size_t moments = 0;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const Optimizer& optimizer = *owners[s].optimizer;
    std::vector<Place>& places = places_.emplace_back();
    for (const StateTensor& tensor : optimizer.state_of(*owners[s].entry)) {
      require(std::ranges::find(places, tensor.name, &Place::name) == places.end(), optimizer.name(),
              "\"{}\" of parameter {} is declared twice", tensor.name, slots[s].parameter.name());
      if (tensor.initial != 0.0) initial.push_back({s, places.size(), tensor.initial});
      if (optimizer.rule()) {
        ensure(places.size() < kMostMoments, optimizer.name(), "more than {} moments", kMostMoments);
        places.push_back({tensor.name, tensor.shape, places.size(), slots[s].first});
        moments = std::max(moments, places.size());
      } else {
        places.push_back({tensor.name, tensor.shape, kDeclared, length_});
        length_ += (tensor.shape.numel() + kDeclaredAlignment - 1) / kDeclaredAlignment * kDeclaredAlignment;
      }
    }
    ends.push_back(length_);
  }

  last_ = length_;
  if (parts) {
    Index before = 0;
    std::size_t s = 0, end = 0;  // of the flat buffers
    for (std::size_t part = 0; part < parts->counts().size(); ++part) {
      end += parts->counts()[part];
      while (s < slots.size() && static_cast<std::size_t>(slots[s].first) < end) ++s;
      const Index after = s == 0 ? 0 : ends[s - 1];
      declared_counts_.push_back(static_cast<std::size_t>(after - before));
      if (static_cast<int>(part) == parts->own()) first_ = before, last_ = after;
      before = after;
    }
  }
  const auto zeros = [&](Index length) {
    return Tensor::zeros({length}, {DType::f32, buffers.device(), MemoryKind::optimizer});
  };
  for (std::size_t m = 0; m < moments; ++m)
    own_.moments.push_back(zeros(parts ? parts->window_length() : buffers.length()));
  if (length_ > 0) own_.declared = zeros(std::max(last_ - first_, kDeclaredAlignment));

  Backend& backend = backend_for(buffers.device());
  for (const Initial& each : initial) {
    const Place& place = places_[each.slot][each.place];
    if (place.moment != kDeclared) {
      UpdateRange range{.first = place.first, .count = place.shape.numel()};
      if (parts) range = parts->in_window(range);
      backend.fill(own_.moments[place.moment].rows(range.first, range.count), each.value);
    } else if (place.first >= first_ && place.first < last_) {
      backend.fill(view(own_.declared, place.first - first_, place.shape), each.value);
    }
  }
}

std::vector<NamedState> OptimizerState::tensors(std::size_t slot) const {
  std::vector<NamedState> tensors;
  for (const Place& place : places_[slot])
    if (place.moment == kDeclared)
      tensors.push_back({place.name, view(own_.declared, place.first - first_, place.shape)});
  return tensors;
}

Index OptimizerState::elements(std::size_t slot) const {
  Index elements = 0;
  for (const Place& place : places_[slot]) elements += place.shape.numel();
  return elements;
}

OptimizerState::Values OptimizerState::gathered(ShardExchange* exchange) const {
  if (!parts_) return own_;
  Values whole;
  for (const Tensor& moment : own_.moments)
    whole.moments.push_back(exchange->part_by_part(parts_->part_of_window(moment), parts_->counts()));
  if (own_.declared.defined()) whole.declared = exchange->part_by_part(part_of_own(), declared_counts_);
  return whole;
}

OptimizerState::Values OptimizerState::to_load() const {
  if (!parts_) return own_;
  Values whole;
  for (std::size_t m = 0; m < own_.moments.size(); ++m)
    whole.moments.push_back(buffers_.make(MemoryKind::workspace));
  if (own_.declared.defined())
    whole.declared = Tensor::zeros({length_}, {DType::f32, buffers_.device(), MemoryKind::workspace});
  return whole;
}

void OptimizerState::take(const Values& whole) const {
  if (!parts_) return;
  Backend& backend = backend_for(buffers_.device());
  for (std::size_t m = 0; m < own_.moments.size(); ++m)
    backend.copy_bytes(parts_->part(whole.moments[m]), parts_->part_of_window(own_.moments[m]));
  if (own_.declared.defined()) backend.copy_bytes(part_of(whole.declared), part_of_own());
}

void OptimizerState::add_named(std::size_t slot, const Values& whole, std::vector<NamedTensor>& named) const {
  const std::string& parameter = buffers_.slots()[slot].parameter.name();
  for (const Place& place : places_[slot]) {
    const bool is_declared = place.moment == kDeclared;
    if (!is_declared && place.moment >= whole.moments.size()) continue;
    const Tensor& flat = is_declared ? whole.declared : whole.moments[place.moment];
    if (flat.defined())
      named.emplace_back("moment." + place.name + "." + parameter, view(flat, place.first, place.shape));
  }
}

}  // namespace tandem::optim
