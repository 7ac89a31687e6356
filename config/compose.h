// Composition of a configuration: shipped files, then "base" files, the file, and overrides from the command
// line.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"

namespace tandem::config {

// Folders with shipped configurations, nearest first: share/tandem of the installation, or the source tree of
// the build.
std::vector<std::string> shipped_directories();
// Names of the shipped configurations without ".json", sorted.
std::vector<std::string> shipped_names();
// Path of the file `name`: a path (relative to `directory`, if given), or a shipped name with or without
// ".json". For a run directory, its config.json. Throws UserError with the nearest shipped name.
std::string find_config(const std::string& name, const std::string& directory = "");

// Reads a file with its bases. "base" is a path or a shipped name, or a list of them (later ones take
// precedence); the result has no "base". Throws UserError for a cycle or more than 16 levels.
Value read_with_bases(const std::string& path);

// Applies one argument of the command line:
//   path.to.key=VALUE   sets; VALUE is JSON if it parses, else a string; a list item is named by its index
//   +path.to.key=VALUE  appends to a list, which is created if absent
//   ~path.to.key        removes, so that the default applies
// If the argument sets a key inside of a preset (precision=amp_fp16), the preset is first expanded to an
// object; `schema` is that of the root.
void apply_override(Value& root, const std::string& argument, const Schema& schema);

}  // namespace tandem::config
