// Exports of a library with one level's kernels: a device library with one device, the host's CPU.
#include "core/cpu/kernels/cpu_backend.h"
#include "core/device_library.h"

#define TANDEM_TEXT_OF(name) #name
#define TANDEM_TEXT(name) TANDEM_TEXT_OF(name)

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

int count(std::string&) { return 1; }
std::string describe(int) { return TANDEM_TEXT(TANDEM_LEVEL); }
Backend& the_backend(int) { return backend(); }

constexpr DeviceLibrary kLibrary{kDeviceLibraryVersion, count, describe, the_backend};

}  // namespace

}  // namespace tandem::cpu::TANDEM_LEVEL

const tandem::DeviceLibrary* tandem_device_library() { return &tandem::cpu::TANDEM_LEVEL::kLibrary; }
