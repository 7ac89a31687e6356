// A library that the program opens at run time. It links tandem::nn, as the program does.
#include <tandem/autograd/modes.h>

extern "C" bool plugin_records();

bool plugin_records() { return tandem::GradMode::enabled(); }
