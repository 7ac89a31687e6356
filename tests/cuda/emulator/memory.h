// Memory of the emulated device and pinned memory of the host.
//
// Device memory lies in one reserved range of addresses that nobody may touch but work that is being
// executed: the host's own accesses crash. Allocations end at a page that is never accessible, as is freed
// memory. What is allocated holds bytes kPoison: NaN in every floating type.
#pragma once

#include <cstddef>

namespace cuda_emulator {

inline constexpr int kPoison = 0xff;

// nullptr when the device's memory is exhausted.
void* allocate_device(std::size_t bytes);
// False when it was not allocated here.
bool free_device(void* address);
std::size_t allocated_device_bytes();
std::size_t device_memory_bytes();
void set_device_memory_bytes(std::size_t bytes);

void* allocate_pinned(std::size_t bytes);
bool free_pinned(void* address);

enum class Residence { pageable, pinned, device };
Residence residence_of(const void* address);
// Whether [address, address + bytes) lies within one allocation of the device; so does any other memory.
bool is_valid_range(const void* address, std::size_t bytes);

// Whether accesses crash, where they are allowed otherwise.
void hide_device_memory();
void show_device_memory();

// Device memory can be accessed while one of these lives.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace cuda_emulator
