#include "tasks/carry.h"

#include <algorithm>

#include "autograd/modes.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "core/partition.h"

namespace tandem::tasks {

namespace {

constexpr int kSamples = 1;  // axis

}  // namespace

Tensor Carry::find(std::string_view name) const {
  const auto found = std::ranges::find(fields_, name, &datasets::Field::name);
  return found == fields_.end() ? Tensor() : found->value;
}

void Carry::set(std::string_view name, const Tensor& value) {
  const auto found = std::ranges::find(fields_, name, &datasets::Field::name);
  if (found == fields_.end()) {
    fields_.push_back({std::string(name), value.detach()});
  } else {
    found->value = value.detach();
  }
}

Carry Carry::joined(std::span<const Carry> parts) {
  const NoGrad no_grad;
  Carry whole;
  const auto first = std::ranges::find_if(parts, [](const Carry& part) { return !part.empty(); });
  if (first == parts.end()) return whole;
  for (const datasets::Field& field : first->fields()) {
    TensorList values;
    for (const Carry& part : parts) {
      if (part.empty()) continue;
      values.push_back(part.find(field.name));
      ensure(values.back().defined(), "carry", "a part of the batch carries no \"{}\"", field.name);
    }
    whole.set(field.name, concat(values, kSamples));
  }
  return whole;
}

std::vector<Carry> Carry::divided(Index parts) const {
  const NoGrad no_grad;
  std::vector<Carry> divided(static_cast<std::size_t>(parts));
  for (const datasets::Field& field : fields_) {
    const auto samples = static_cast<std::size_t>(field.value.size(kSamples));
    for (std::size_t part = 0; part < divided.size(); ++part) {
      const Range range = part_of(samples, divided.size(), part);
      if (range.count() == 0) continue;
      divided[part].set(field.name, slice(field.value, kSamples, static_cast<Index>(range.first),
                                          static_cast<Index>(range.last)));
    }
  }
  return divided;
}

}  // namespace tandem::tasks
