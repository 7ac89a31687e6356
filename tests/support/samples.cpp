// Makes the sample data sets known to the tests of a program.
#include "samples/register.h"

namespace {

[[maybe_unused]] const bool added = (tandem::samples::register_all(), true);

}  // namespace
