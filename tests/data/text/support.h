// Helpers for tests of text sources.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"

namespace tandem::test {

// What a batch says, as bytes.
inline std::string bytes_of(const datasets::Batch& batch) {
  std::string bytes = std::to_string(batch.samples) + " " + std::to_string(batch.weight);
  for (const datasets::Field& field : batch.fields()) {
    bytes += field.name + to_string(field.value.shape());
    bytes.append(static_cast<const char*>(field.value.raw()), field.value.bytes());
  }
  return bytes;
}

inline std::vector<std::string> epoch_of(datasets::Loader& loader) {
  std::vector<std::string> batches;
  while (const auto batch = loader.next()) batches.push_back(bytes_of(*batch));
  return batches;
}

inline std::vector<std::int64_t> numbers(const datasets::Batch& batch, const char* field) {
  return batch[field].to_vector<std::int64_t>();
}

}  // namespace tandem::test
