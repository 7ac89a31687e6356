// Memory of the emulated device, and pinned host memory.
//
// Device memory is one reserved address range that is accessible only to executing work: accesses by the host
// crash. Allocations end at an inaccessible page, and freed memory is inaccessible. New allocations are
// filled with kPoison bytes, which are NaN in every floating type.
#pragma once

#include <cstddef>

namespace cuda_emulator {

inline constexpr int kPoison = 0xff;

// nullptr if the device's memory is exhausted.
void* allocate_device(std::size_t bytes);
// False if it was not allocated here.
bool free_device(void* address);
std::size_t allocated_device_bytes();
std::size_t device_memory_bytes();
void set_device_memory_bytes(std::size_t bytes);

void* allocate_pinned(std::size_t bytes);
bool free_pinned(void* address);

enum class Residence { pageable, pinned, device };
Residence residence_of(const void* address);
// Whether [address, address + bytes) lies within one allocation of the device. True for all other memory.
bool is_valid_range(const void* address, std::size_t bytes);

// Makes device memory inaccessible despite DeviceAccess, and accessible again.
void hide_device_memory();
void show_device_memory();

// Device memory is accessible during the lifetime of an object.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace cuda_emulator
