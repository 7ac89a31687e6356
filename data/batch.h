// Batch: the named tensors of some samples. A source fills the fields and a task reads them; all code in
// between treats fields alike.
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
  Tensor twin{};  // copy in host memory of a field on a device that the host also reads
};

class Batch {
 public:
  Batch() = default;
  // The weight is the number of samples.
  Batch(std::vector<Field> fields, Index samples);
  Batch(const Batch&) = default;
  Batch(Batch&&) noexcept = default;
  Batch& operator=(const Batch&) = default;
  Batch& operator=(Batch&&) noexcept = default;
  ~Batch();  // inlined, GCC 12 reports fields of an std::optional<Batch> as uninitialised

  // Throws UserError that lists the fields when none has this name.
  const Tensor& operator[](std::string_view name) const;
  // Returns an undefined tensor when there is none.
  Tensor find(std::string_view name) const;
  // The field or its twin if one of them lies in host memory. Otherwise a copy: the host waits for it, and a
  // recording (Backend::record) cannot make it.
  Tensor on_host(std::string_view name) const;
  // Replaces or adds a field, without a twin.
  void set(std::string_view name, Tensor value);
  // Makes a field in host memory its own twin, which copies of the batch on other devices keep.
  void keep_on_host(std::string_view name);

  std::span<const Field> fields() const { return fields_; }
  bool empty() const { return fields_.empty(); }

  Index samples = 0;
  Index first = 0;      // samples before it in the epoch
  double weight = 0.0;  // weight in a mean over batches: samples, tokens or pixels
  // Factor on the learning rate of the step; with several batches, their weighted mean is used.
  double rate_factor = 1.0;

  // A copy on `device`, twins included; returns the batch itself if it lies there.
  Batch to(Device device) const;
  // True if fields agree in name, shape, dtype and device, so that work recorded for one batch fits the
  // other.
  bool like(const Batch& other) const;

 private:
  const Field& field(std::string_view name) const;

  std::vector<Field> fields_;
};

}  // namespace tandem::datasets
