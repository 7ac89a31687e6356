// Device libraries, opened on demand: backends of devices other than the CPU, so that one program runs with
// and without a GPU, and the CPU's kernels beyond x86-64-v2 (core/cpu/level.h). This defines their exports,
// and how they are found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/device.h"

namespace tandem {

class Backend;
class DeviceLink;

// Increase with every change of Backend, of a family of kernels, of DeviceLibrary or of a type they pass.
inline constexpr std::uint32_t kDeviceLibraryVersion = 5;

// Result of a library's exported function tandem_device_library(). Its functions throw Tandem's errors.
struct DeviceLibrary {
  std::uint32_t version;  // kDeviceLibraryVersion of the headers it was compiled with
  // Number of usable devices; if 0, sets a one-line reason.
  int (*count)(std::string& why_none);
  // One line for users: the device's name, memory, capability, and the versions of driver and libraries.
  std::string (*describe)(int index);
  // The backend of device `index`, made at the first call; never destroyed.
  Backend& (*backend)(int index);
  // Its link to other devices, never destroyed; absent if unsupported.
  DeviceLink& (*link)(int index) = nullptr;
};

struct OpenedLibrary {
  const DeviceLibrary* library = nullptr;
  std::string why_none;  // one line, without a library
};

// Opens a library for the lifetime of the process; never throws.
OpenedLibrary open_device_library(const std::filesystem::path& path);

// Folder of the library that contains this function; the others are beside it.
std::filesystem::path folder_of_core_library();

// The CUDA device library, as found by the first call.
struct CudaDevices {
  int count = 0;
  std::string why_none;                    // one line, when count is 0
  const DeviceLibrary* library = nullptr;  // absent when none could be opened
};

// Looks for libtandem_cuda.so beside the library that contains this function, or at the environment variable
// TANDEM_CUDA_LIBRARY, and for an NVIDIA driver; opens nothing large without a GPU. Never throws.
const CudaDevices& cuda_devices();

// The library of a CUDA device; throws UserError with the reason if there is no such device.
const DeviceLibrary& library_of(Device device);

}  // namespace tandem

extern "C" __attribute__((visibility("default"))) const tandem::DeviceLibrary* tandem_device_library();
