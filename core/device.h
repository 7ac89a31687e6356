// Where a tensor lives.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;  // ordinal among devices of the type; 0 on the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

// "cpu" or "cuda:0".
inline std::string to_string(Device device) {
  return device.type == DeviceType::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace tandem
