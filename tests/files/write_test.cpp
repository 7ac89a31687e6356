#include "files/write.h"

#include "tests/support/temporary_files.h"

using namespace tandem;
using Catch::Contains;

TEST_CASE("lines that the system refuses are kept and written later", "[write]") {
  // A device that is always full.
  if (!std::filesystem::exists("/dev/full")) return;
  files::LineFile file("/dev/full");
  file.add("one");
  file.add("two");
  CHECK_THAT(file.write_error().value_or(""),
             Contains("/dev/full: cannot be written: No space left on device"));
  CHECK(file.kept() == "one\ntwo\n");
}
