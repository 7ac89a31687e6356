// Build information of this binary, from the build system.
#pragma once

namespace tandem {

const char* version();           // "0.1.0"
const char* build_type();        // "Release"
const char* compiler();          // "GCC 12.2.0"
const char* source_directory();  // source tree of the build; may no longer exist

}  // namespace tandem
