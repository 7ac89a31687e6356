#include "data/batch.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::datasets {

Batch::Batch(std::vector<Field> fields, Index samples_)
    : samples(samples_), weight(static_cast<double>(samples_)), fields_(std::move(fields)) {}

Batch::~Batch() = default;

const Field& Batch::field(std::string_view name) const {
  const auto found = std::ranges::find(fields_, name, &Field::name);
  if (found != fields_.end()) return *found;
  std::string names;
  for (const Field& field : fields_) names += (names.empty() ? "" : ", ") + field.name;
  throw UserError("batch", fmt::format("there is no field \"{}\"; the fields are: {}", name, names));
}

const Tensor& Batch::operator[](std::string_view name) const { return field(name).value; }

Tensor Batch::on_host(std::string_view name) const {
  const Field& found = field(name);
  return found.twin.defined() ? found.twin : found.value.to(Device{});
}

Tensor Batch::find(std::string_view name) const {
  const auto found = std::ranges::find(fields_, name, &Field::name);
  return found != fields_.end() ? found->value : Tensor();
}

void Batch::set(std::string_view name, Tensor value) {
  const auto found = std::ranges::find(fields_, name, &Field::name);
  if (found != fields_.end()) {
    *found = {std::string(name), std::move(value)};
  } else {
    fields_.push_back({std::string(name), std::move(value)});
  }
}

void Batch::keep_on_host(std::string_view name) {
  const Tensor& value = field(name).value;
  ensure(value.device() == Device{}, "batch", "{} {} does not lie in host memory", name, to_string(value));
  std::ranges::find(fields_, name, &Field::name)->twin = value;
}

Batch Batch::to(Device device) const {
  Batch moved = *this;
  for (Field& field : moved.fields_) field.value = field.value.to(device);
  return moved;
}

bool Batch::like(const Batch& other) const {
  return std::ranges::equal(fields_, other.fields_, [](const Field& a, const Field& b) {
    return a.name == b.name && a.value.shape() == b.value.shape() && a.value.dtype() == b.value.dtype() &&
           a.value.device() == b.value.device();
  });
}

}  // namespace tandem::datasets
