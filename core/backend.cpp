#include "core/backend.h"

#include <array>
#include <atomic>
#include <limits>

#include "core/cpu/level.h"
#include "core/device_library.h"
#include "core/error.h"
#include "core/shapes_backend.h"

namespace tandem {

namespace {

// Backends of CUDA devices that were opened; a repeated request costs one load.
std::array<std::atomic<Backend*>, std::numeric_limits<std::int8_t>::max() + 1> opened;

Backend& open(Device device) {
  Backend& backend = library_of(device).backend(device.index);
  opened[static_cast<std::size_t>(device.index)] = &backend;
  return backend;
}

}  // namespace

std::unique_ptr<Recording> DeviceServices::record(const std::function<void()>&) {
  throw InternalError("device", fmt::format("{} does not record", to_string(device())));
}

Tensor transfer_memory(const Shape& shape, DType dtype, Device device) {
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  CachingAllocator& allocator = backend_for(device).transfer_allocator();
  return Tensor::over(make_ref<Storage>(allocator, bytes, Device{}, MemoryKind::data), 0, shape, dtype);
}

Backend& backend_for(Device device) {
  if (device.type == DeviceType::cpu) [[likely]]
    return cpu::backend();
  if (device == kShapes) return shapes_backend();
  if (device.index >= 0) {
    Backend* const backend = opened[static_cast<std::size_t>(device.index)].load(std::memory_order_acquire);
    if (backend) [[likely]]
      return *backend;
  }
  return open(device);
}

}  // namespace tandem
