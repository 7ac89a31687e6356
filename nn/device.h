// Device of the parameters, statistics and constants of modules.
#pragma once

#include "core/device.h"

namespace tandem::nn {

class Module;

// Modules that this thread builds within the scope are on `device`; outside of any scope, on the CPU. On
// kShapes (core/shapes_backend.h) a model of any size is built at once, for its shapes.
class BuildDevice {
 public:
  explicit BuildDevice(Device device);
  ~BuildDevice();
  BuildDevice(const BuildDevice&) = delete;
  BuildDevice& operator=(const BuildDevice&) = delete;

  static Device current();

 private:
  const Device outer_;
};

// The device of the module's parameters, statistics and constants; the CPU if it has none.
Device device_of(const Module& module);

}  // namespace tandem::nn
