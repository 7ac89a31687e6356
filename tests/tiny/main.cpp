// `tandem` that knows the families of tests/tiny/tasks.h besides its own.
#include "cli/commands.h"
#include "tests/tiny/tasks.h"

int main(int argc, char** argv) {
  tandem::test::add_tiny_families();
  return tandem::cli::run(argc, argv);
}
