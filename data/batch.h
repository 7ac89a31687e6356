// Batch: tensors by name, of some samples. Which fields there are is the affair of the source that fills them
// and of the task that reads them; everything between carries whatever there is.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace tandem::datasets {

struct Field {
  std::string name;
  Tensor value;
  Tensor twin{};  // the same in host memory, of what lies on a device and is read by the host, too
};

class Batch {
 public:
  Batch() = default;
  // It counts as much as it has samples.
  Batch(std::vector<Field> fields, Index samples);
  Batch(const Batch&) = default;
  Batch(Batch&&) noexcept = default;
  Batch& operator=(const Batch&) = default;
  Batch& operator=(Batch&&) noexcept = default;
  ~Batch();  // inlined, GCC 12 takes the fields of an optional one for uninitialised

  // The field of that name. Throws UserError that names the fields there are when there is none.
  const Tensor& operator[](std::string_view name) const;
  // An absent tensor when there is none.
  Tensor find(std::string_view name) const;
  // Its values in host memory: the field itself where it lies there, or its twin; else a copy, for which the
  // host waits, and which no recording can make (Backend::record).
  Tensor on_host(std::string_view name) const;
  // Replaces the field of that name, or adds it; it has no twin.
  void set(std::string_view name, Tensor value);
  // Gives a field that lies in host memory a twin, itself, which it keeps where the batch goes.
  void keep_on_host(std::string_view name);

  std::span<const Field> fields() const { return fields_; }
  bool empty() const { return fields_.empty(); }

  Index samples = 0;
  Index first = 0;      // samples of the epoch that come before it
  double weight = 0.0;  // what it counts in a mean over several batches: its samples, tokens, pixels
  // On the learning rate of the step that it is in; of several batches, their mean by what they count.
  double rate_factor = 1.0;

  // A copy in other memory, with the twins there are; the identity when nothing differs.
  Batch to(Device device) const;
  // Whether the fields are the same in name, shape, dtype and device: work that was recorded for one can be
  // done for the other.
  bool like(const Batch& other) const;

 private:
  const Field& field(std::string_view name) const;

  std::vector<Field> fields_;
};

}  // namespace tandem::datasets
