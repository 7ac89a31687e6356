// Device of the parameters, statistics and constants of modules.
#pragma once

#include "core/device.h"
#include "core/scoped_value.h"

namespace tandem::nn {

class Module;

// Modules that this thread builds within the scope are on `device`; outside of any scope, on the CPU. On
// kShapes (core/shapes_backend.h) a model of any size is built at once, for its shapes.
class BuildDevice : ScopedValue<Device> {
 public:
  explicit BuildDevice(Device device);

  static Device current();
};

// The device of the module's parameters, statistics and constants; the CPU if it has none.
Device device_of(const Module& module);

}  // namespace tandem::nn
