#include <filesystem>

#include "cli/commands.h"
#include "config/compose.h"
#include "core/error.h"
#include "files/input.h"
#include "files/output.h"
#include "files/write.h"
#include "runs/run_directory.h"

namespace tandem::cli {

namespace fs = std::filesystem;

int copy(const CopyArguments& arguments) {
  const std::string source = config::find_config(arguments.name);
  std::error_code error;
  fs::path target = arguments.file;
  if (fs::is_directory(target, error)) target /= fs::path(source).filename();
  require(arguments.force || !fs::exists(target, error), "", "{}: exists; --force overwrites it",
          target.string());
  runs::require_no_file_of_run(target, "cp");
  files::write_atomically(target.string(), files::read_text(source));
  output::print("{}\n", target.string());
  return 0;
}

}  // namespace tandem::cli
