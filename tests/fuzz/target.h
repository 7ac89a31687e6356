// A fuzz target: a function of bytes that returns, or throws UserError or VendorError. Any other exception,
// and any crash, is a finding.
//
// Each target is one file, built twice: with Clang's libFuzzer, which calls LLVMFuzzerTestOneInput, and into
// fuzz_replay, which runs the committed corpora through all targets with any compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::fuzz {

using Bytes = std::span<const std::byte>;

struct Target {
  const char* name;  // of its folder in tests/fuzz/corpus
  void (*run)(Bytes);
};

// Of fuzz_replay.
std::vector<Target>& targets();

// The input as a file that is only in memory; it lives until the next call.
std::string file_of(Bytes input);

// A folder in memory that goes with the process.
const std::string& folder();

// Throws InternalError, a finding, unless `holds`.
void expect(bool holds, const char* what);

// Runs a target; refusals are fine. Whether the input was accepted, and why not.
bool run_guarded(void (*run)(Bytes), Bytes input, std::string& why);

}  // namespace tandem::fuzz

#ifdef TANDEM_LIBFUZZER
#define TANDEM_FUZZ_TARGET(target_name, function)                                     \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    std::string why;                                                                  \
    tandem::fuzz::run_guarded(function, std::as_bytes(std::span(data, size)), why);   \
    return 0;                                                                         \
  }
#else
#define TANDEM_FUZZ_TARGET(target_name, function)                \
  [[maybe_unused]] static const bool registered_as_target = [] { \
    tandem::fuzz::targets().push_back({target_name, function});  \
    return true;                                                 \
  }();
#endif
