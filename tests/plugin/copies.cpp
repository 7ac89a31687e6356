// A plugin that links Tandem's static libraries for itself, as users' plugins do.
#include "autograd/modes.h"

extern "C" bool plugin_records();

bool plugin_records() { return tandem::GradMode::enabled(); }
