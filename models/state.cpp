#include "models/state.h"

#include <algorithm>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "core/partition.h"

namespace tandem::models {

namespace {

constexpr int kRows = 1;  // axis

// [N]: 0 for rows with only finite values, else NaN.
Tensor faults_of_rows(const Tensor& value) {
  Axes others;
  for (int axis = 0; axis < value.rank(); ++axis)
    if (axis != kRows) others.push_back(axis);
  return sum(cast(value, wide_of(value.dtype())) * 0.0, others);
}

// Shape that broadcasts one number per row over the value.
Shape one_for_each_row(const Tensor& value) {
  Shape shape = value.shape();
  for (int axis = 0; axis < value.rank(); ++axis)
    if (axis != kRows) shape = shape.with(axis, 1);
  return shape;
}

}  // namespace

Tensor State::find(std::string_view name) const {
  const auto found = std::ranges::find(fields_, name, &Field::name);
  return found == fields_.end() ? Tensor() : found->value;
}

void State::set(std::string_view name, const Tensor& value) {
  const auto found = std::ranges::find(fields_, name, &Field::name);
  if (found == fields_.end()) {
    fields_.push_back({std::string(name), value});
  } else {
    found->value = value;
  }
}

State State::select(const Tensor& rows) const {
  State selected;
  for (const Field& field : fields_)
    selected.set(field.name, index_select(field.value, rows.to(field.value.device()), kRows));
  return selected;
}

State State::carried() const {
  const NoGrad no_grad;
  Tensor faults;
  for (const Field& field : fields_) {
    if (!is_floating(field.value.dtype())) continue;
    const Tensor own = faults_of_rows(field.value.detach());
    faults = faults.defined() ? faults + own : own;
  }
  State carried;
  Tensor sound;
  if (faults.defined())
    sound = equal(faults, Tensor::zeros({1}, {.dtype = faults.dtype(), .device = faults.device()}));
  for (const Field& field : fields_) {
    Tensor value = field.value.detach();
    if (is_floating(value.dtype()))
      value = where(reshape(sound, one_for_each_row(value)), value, Tensor::zeros({1}, value.options()));
    carried.set(field.name, value);
  }
  return carried;
}

State State::joined(std::span<const State> parts) {
  const NoGrad no_grad;
  State whole;
  const auto first = std::ranges::find_if(parts, [](const State& part) { return !part.empty(); });
  if (first == parts.end()) return whole;
  for (const Field& field : first->fields()) {
    TensorList values;
    for (const State& part : parts) {
      if (part.empty()) continue;
      values.push_back(part.find(field.name));
      ensure(values.back().defined(), "state", "a part of the batch has no \"{}\"", field.name);
    }
    whole.set(field.name, concat(values, kRows));
  }
  return whole;
}

std::vector<State> State::divided(Index parts) const {
  const NoGrad no_grad;
  std::vector<State> divided(static_cast<std::size_t>(parts));
  for (const Field& field : fields_) {
    const auto rows = static_cast<std::size_t>(field.value.size(kRows));
    for (std::size_t part = 0; part < divided.size(); ++part) {
      const Range range = part_of(rows, divided.size(), part);
      if (range.count() == 0) continue;
      divided[part].set(field.name, slice(field.value, kRows, static_cast<Index>(range.first),
                                          static_cast<Index>(range.last)));
    }
  }
  return divided;
}

}  // namespace tandem::models
