// `tandem` with the families and models of tests/tiny in addition.
#include "cli/commands.h"
#include "tests/tiny/models.h"
#include "tests/tiny/tasks.h"

int main(int argc, char** argv) {
  tandem::test::add_tiny_families();
  tandem::test::add_tiny_models();
  return tandem::cli::run(argc, argv);
}
