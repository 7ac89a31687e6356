#include "cli/commands.h"

int main(int argc, char** argv) { return tandem::cli::run(argc, argv); }
