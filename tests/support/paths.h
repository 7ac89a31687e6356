// Paths of the sources and of the program under test. Only paths.cpp is compiled with them, so that no other
// file depends on the place of the tree.
#pragma once

#include <string>

namespace tandem::test {

// "configs" → the absolute path of that folder of the source tree.
std::string source_path(const std::string& relative);

// The `tandem` of this build.
const char* program_path();
// The one that knows the families of tests/tiny, too.
const char* tiny_program_path();

// The vectors of core/cpu/kernels/simd.h compiled for a level, as a library: "v3".
std::string simd_library(const std::string& level);

}  // namespace tandem::test
