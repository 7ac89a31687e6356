// Control of the emulated GPU (tests/cuda/emulator/control.h), if the device under test is one.
#pragma once

#include <dlfcn.h>

#include <cstdlib>

#include "core/error.h"
#include "tests/cuda/emulator/control.h"

namespace tandem::test {

struct Emulator {
  cuda_emulator::Counts (*counts)() = nullptr;
  void (*set_device_memory)(std::size_t bytes) = nullptr;
  void (*fail_call)(const char* function, std::uint64_t n) = nullptr;
  void (*set_event_denials)(int denials) = nullptr;
  void (*set_narrow_libraries)(bool narrow) = nullptr;
  void (*set_wrong_fusions)(bool wrong) = nullptr;
  void (*set_attention_offered)(bool offered) = nullptr;
  void (*set_algorithms)(int count) = nullptr;
  void (*set_compiled_algorithm)(const char* name) = nullptr;
  void (*set_seconds)(const char* part, double seconds, double cold) = nullptr;

  explicit operator bool() const { return counts != nullptr; }
};

// Without functions where the device is a real one, or the CPU.
inline Emulator emulator() {
  const char* const library = std::getenv("TANDEM_CUDA_LIBRARY");
  void* const opened = library ? dlopen(library, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  Emulator found;
  if (!opened) return found;
  const auto find = [&]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(opened, name));
  };
  find(found.counts, "_ZN13cuda_emulator6countsEv");
  find(found.set_device_memory, "_ZN13cuda_emulator17set_device_memoryEm");
  find(found.fail_call, "_ZN13cuda_emulator9fail_callEPKcm");
  find(found.set_event_denials, "_ZN13cuda_emulator17set_event_denialsEi");
  find(found.set_narrow_libraries, "_ZN13cuda_emulator20set_narrow_librariesEb");
  find(found.set_wrong_fusions, "_ZN13cuda_emulator17set_wrong_fusionsEb");
  find(found.set_attention_offered, "_ZN13cuda_emulator21set_attention_offeredEb");
  find(found.set_algorithms, "_ZN13cuda_emulator14set_algorithmsEi");
  find(found.set_compiled_algorithm, "_ZN13cuda_emulator22set_compiled_algorithmEPKc");
  find(found.set_seconds, "_ZN13cuda_emulator11set_secondsEPKcdd");
  ensure(!found.counts ||
             (found.set_device_memory && found.fail_call && found.set_event_denials &&
              found.set_narrow_libraries && found.set_wrong_fusions && found.set_attention_offered &&
              found.set_algorithms && found.set_compiled_algorithm && found.set_seconds),
         "test", "{} lacks a function of the emulator's control.h", library);
  return found;
}

}  // namespace tandem::test
