#include "tasks/carry.h"

#include <algorithm>

namespace tandem::tasks {

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

}  // namespace tandem::tasks
