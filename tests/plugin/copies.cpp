// A plugin with its own copy of Tandem's static libraries, as users' plugins have.
#include "autograd/modes.h"

extern "C" bool plugin_records();

bool plugin_records() { return tandem::GradMode::enabled(); }
