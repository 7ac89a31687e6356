#include "nn/device.h"

#include "nn/module.h"

namespace tandem::nn {

namespace {
thread_local Device build_device;
}  // namespace

BuildDevice::BuildDevice(Device device) : ScopedValue(build_device, device) {}
Device BuildDevice::current() { return build_device; }

Device device_of(const Module& module) {
  if (const auto parameters = module.parameter_paths(); !parameters.empty())
    return parameters.front().second.value().device();
  if (const auto statistics = module.statistics(); !statistics.empty())
    return statistics.front().live.device();
  const auto constants = module.constants();
  return constants.empty() ? Device{} : constants.front().value.device();
}

}  // namespace tandem::nn
