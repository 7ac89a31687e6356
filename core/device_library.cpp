#include "core/device_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"

namespace tandem {

namespace {

constexpr const char* kFileName = "libtandem_cuda.so";

std::string last_dl_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

// True if the driver responds and sees a GPU; otherwise sets a one-line reason. Declares the driver functions
// itself (CUDA Driver API, "Initialization" and "Device Management"), so no toolkit is needed.
bool driver_sees_gpu(std::string& why_none) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) {
    why_none = "no NVIDIA driver is installed (" + last_dl_error() + ")";
    return false;
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  const auto error_text = reinterpret_cast<int (*)(int, const char**)>(dlsym(driver, "cuGetErrorString"));
  if (!init || !get_count || !error_text) {
    why_none = "libcuda.so.1 is not an NVIDIA driver: " + last_dl_error();
    return false;
  }
  int count = 0;
  int status = init(0);
  if (status == 0) status = get_count(&count);
  if (status != 0) {
    const char* text = nullptr;
    error_text(status, &text);
    why_none = fmt::format("the NVIDIA driver says: {} (CUDA error {})", text ? text : "unknown", status);
    return false;
  }
  if (count == 0) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    why_none = fmt::format("the NVIDIA driver sees no GPU{}",
                           visible ? fmt::format(" (CUDA_VISIBLE_DEVICES is \"{}\")", visible) : "");
    return false;
  }
  return true;
}

CudaDevices find_cuda_devices() {
  CudaDevices found;
  const char* const named = std::getenv("TANDEM_CUDA_LIBRARY");
  const std::filesystem::path path = named ? named : folder_of_core_library() / kFileName;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    found.why_none = named ? fmt::format("TANDEM_CUDA_LIBRARY names {}, which does not exist", path.string())
                           : "this build of Tandem has no CUDA backend";
    return found;
  }
  // The backend loads some GB of CUDA libraries, so the small driver is asked first, except for an explicitly
  // named library.
  if (!named && !driver_sees_gpu(found.why_none)) return found;
  const OpenedLibrary opened = open_device_library(path);
  if (!opened.library) {
    found.why_none = opened.why_none;
    return found;
  }
  found.library = opened.library;
  try {
    found.count = found.library->count(found.why_none);
  } catch (const std::exception& error) {
    found.why_none = error.what();
  }
  return found;
}

}  // namespace

OpenedLibrary open_device_library(const std::filesystem::path& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return {nullptr, fmt::format("{} cannot be opened: {}", path.string(), last_dl_error())};
  const auto entry = reinterpret_cast<const DeviceLibrary* (*)()>(dlsym(handle, "tandem_device_library"));
  const DeviceLibrary* const library = entry ? entry() : nullptr;
  if (!library || library->version != kDeviceLibraryVersion)
    return {nullptr,
            fmt::format("{} belongs to another version of Tandem: build both together", path.string())};
  return {library, {}};
}

std::filesystem::path folder_of_core_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&cuda_devices), &info) == 0 || !info.dli_fname) return {};
  std::error_code ignored;
  return std::filesystem::weakly_canonical(info.dli_fname, ignored).parent_path();
}

const CudaDevices& cuda_devices() {
  static const CudaDevices devices = find_cuda_devices();
  return devices;
}

const DeviceLibrary& library_of(Device device) {
  const CudaDevices& devices = cuda_devices();
  require(devices.count > 0, "device", "{} is not available: {}", to_string(device), devices.why_none);
  require(device.index >= 0 && device.index < devices.count, "device",
          "{} is not available: there {} {} CUDA device{}, numbered from 0", to_string(device),
          devices.count == 1 ? "is" : "are", devices.count, devices.count == 1 ? "" : "s");
  return *devices.library;
}

}  // namespace tandem
