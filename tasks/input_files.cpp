#include "tasks/input_files.h"

#include "core/error.h"
#include "data/image_file.h"
#include "data/passed_over.h"
#include "files/input.h"
#include "files/output.h"

namespace tandem::tasks {

std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    const files::Kind kind = files::kind_of(path);
    require(kind != files::Kind::absent, "", "{}: there is no such file or folder", path);
    if (kind != files::Kind::folder) {
      found.push_back(path);
      continue;
    }
    datasets::PassedOver passed_over;
    const auto below = datasets::image_files_below(path, true, &passed_over);
    require(!below.empty(), "", "{}: has no .jpg, .jpeg or .png file in it", path);
    for (const auto& file : below) found.push_back(file.string());
    for (const std::string& note : passed_over.notes()) output::remark("tandem: note: {}\n", note);
  }
  return found;
}

}  // namespace tandem::tasks
