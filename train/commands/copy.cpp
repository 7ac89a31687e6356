#include <filesystem>

#include "core/error.h"
#include "files/input.h"
#include "train/commands/commands.h"
#include "train/config/compose.h"
#include "train/files.h"
#include "train/output.h"

namespace tandem::commands {

namespace fs = std::filesystem;

int copy(const CopyArguments& arguments) {
  const std::string source = config::find_config(arguments.name);
  std::error_code error;
  fs::path target = arguments.file;
  if (fs::is_directory(target, error)) target /= fs::path(source).filename();
  require(arguments.force || !fs::exists(target, error), "", "{}: exists; --force overwrites it",
          target.string());
  train::write_atomically(target.string(), files::read_text(source));
  train::print("{}\n", target.string());
  return 0;
}

}  // namespace tandem::commands
