// Device of a tensor.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

enum class DeviceType : std::uint8_t {
  cpu,
  cuda,
  shapes  // holds no elements, see core/shapes_backend.h
};

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;  // ordinal among devices of the type; 0 on the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

// "cpu", "cuda:0" or "shapes".
inline std::string to_string(Device device) {
  if (device.type == DeviceType::cuda) return "cuda:" + std::to_string(device.index);
  return device.type == DeviceType::cpu ? "cpu" : "shapes";
}

}  // namespace tandem
