// Devices besides the CPU come from a library that is opened when one is first asked for, so that one program
// runs with and without a GPU; so do the CPU's kernels beyond x86-64-v2 (core/cpu/level.h). This is what such
// a library exports, and how it is found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/device.h"

namespace tandem {

class Backend;
class DeviceLink;

// To be raised with every change of Backend, of DeviceLibrary or of a type they pass.
inline constexpr std::uint32_t kDeviceLibraryVersion = 4;

// What tandem_device_library(), which a library exports, returns. Its functions throw Tandem's errors.
struct DeviceLibrary {
  std::uint32_t version;  // kDeviceLibraryVersion of the headers it was compiled with
  // How many devices can be used; 0 with one line that says why.
  int (*count)(std::string& why_none);
  // One line for people: the device's name, memory, capability, and the versions of driver and libraries.
  std::string (*describe)(int index);
  // The backend of device `index`, made at the first call; lives as long as the process.
  Backend& (*backend)(int index);
  // Its link to other devices, of the same life; absent where devices have none.
  DeviceLink& (*link)(int index) = nullptr;
};

struct OpenedLibrary {
  const DeviceLibrary* library = nullptr;
  std::string why_none;  // one line, when there is none
};

// Opens one, for as long as the process lives; never throws.
OpenedLibrary open_device_library(const std::filesystem::path& path);

// Where the library that holds this function lies, and with it the others.
std::filesystem::path folder_of_core_library();

// The library of CUDA devices, as found by the first call that asks.
struct CudaDevices {
  int count = 0;
  std::string why_none;                    // one line, when count is 0
  const DeviceLibrary* library = nullptr;  // absent when none could be opened
};

// Looks for libtandem_cuda.so beside the library that holds this function, or where the environment variable
// TANDEM_CUDA_LIBRARY says, and for an NVIDIA driver; opens nothing large where there is no GPU. Never
// throws.
const CudaDevices& cuda_devices();

// The library of a CUDA device; throws UserError with the reason when there is no such device.
const DeviceLibrary& library_of(Device device);

}  // namespace tandem

extern "C" __attribute__((visibility("default"))) const tandem::DeviceLibrary* tandem_device_library();
