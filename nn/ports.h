// Ports: the inputs and outputs of a module by name, where it does not take one tensor of samples with the
// batch in front. Programs that know no module, such as exports, call it by them.
#pragma once

#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace tandem::nn {

struct Port {
  // Extents that differ from call to call.
  static constexpr Index kRows = -1, kSteps = -2;

  std::string name;
  std::vector<Index> extents;
  DType dtype = DType::f32;  // or i64
};

// A base of modules beside Module.
class Ports {
 public:
  virtual ~Ports() = default;
  // What Module::forward_outputs takes, in its order; there are inputs whose extents are kSteps and kRows.
  virtual std::vector<Port> inputs() const = 0;
  // The names of what it gives.
  virtual std::vector<std::string> outputs() const = 0;
};

}  // namespace tandem::nn
