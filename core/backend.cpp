#include "core/backend.h"

#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem {

Backend& backend_for(Device device) {
  require(device.type == DeviceType::cpu, "device",
          "{} is not available: this build has the CPU backend only", to_string(device));
  return cpu::backend();
}

}  // namespace tandem
