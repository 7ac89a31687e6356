#include "train/commands/commands.h"

int main(int argc, char** argv) { return tandem::commands::run(argc, argv); }
