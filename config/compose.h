// Puts a configuration together: shipped files, "base" files below, overrides from the command line on top.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"

namespace tandem::config {

// Folders with shipped configurations, nearest first: the source tree the program was built in, or
// share/tandem of the installation it belongs to.
std::vector<std::string> shipped_directories();
// Names of the shipped configurations without ".json", sorted.
std::vector<std::string> shipped_names();
// The file that `name` means: a path (relative to `directory` when that is given), else a shipped name with
// or without ".json". A run directory means its config.json. Throws UserError naming the nearest shipped
// name.
std::string find_config(const std::string& name, const std::string& directory = "");

// Reads a file and everything it is based on. "base" is a path or a shipped name, or a list of them (later
// ones on top); it is gone from the result. Throws UserError for a cycle or for more than 16 levels.
Value read_with_bases(const std::string& path);

// Applies one argument of the command line:
//   path.to.key=VALUE   sets; VALUE is JSON if it parses, else a string; a list item is named by its index
//   +path.to.key=VALUE  appends to a list, which is created when absent
//   ~path.to.key        removes, so that the default holds again
// A word that stands for an object (precision=amp_fp16) is spelt out where a key inside of it is set;
// `schema`, that of the whole, knows them.
void apply_override(Value& root, const std::string& argument, const Schema& schema);

}  // namespace tandem::config
