// What this binary was built from and with. The values come from the build system.
#pragma once

namespace tandem {

const char* version();           // "0.1.0"
const char* build_type();        // "Release"
const char* compiler();          // "GCC 12.2.0"
const char* source_directory();  // the tree it was built in; may be gone

}  // namespace tandem
