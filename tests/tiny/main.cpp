// `tandem` that knows the families and the models of tests/tiny besides its own.
#include "cli/commands.h"
#include "tests/tiny/models.h"
#include "tests/tiny/tasks.h"

int main(int argc, char** argv) {
  tandem::test::add_tiny_families();
  tandem::test::add_tiny_models();
  return tandem::cli::run(argc, argv);
}
