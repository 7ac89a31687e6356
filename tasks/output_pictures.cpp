#include "tasks/output_pictures.h"

#include <map>

#include "core/error.h"
#include "files/input.h"

namespace tandem::tasks {

namespace fs = std::filesystem;

std::vector<PictureJob> picture_jobs(const std::vector<std::string>& images, const std::string& out,
                                     const std::string& what, const FilesBeside& beside) {
  std::vector<PictureJob> jobs;
  std::error_code unknown;  // the writer reports errors
  const bool into_file = fs::path(out).extension() == ".png" && !fs::is_directory(out, unknown);
  require(!into_file || images.size() == 1, "",
          "predict: --out {} is one file, for {} images; name a folder to write their {} to", out,
          images.size(), what);
  std::map<fs::path, std::string> taken;
  for (const std::string& image : images) {
    const fs::path file =
        into_file ? fs::path(out) : fs::path(out) / (fs::path(image).stem().string() + ".png");
    std::vector<fs::path> written{file};
    if (beside)
      for (fs::path& path : beside(file)) written.push_back(std::move(path));
    for (const fs::path& path : written) {
      const auto [other, is_new] = taken.emplace(path.lexically_normal(), image);
      require(is_new, "", "predict: {} and {} would both be written to {}", other->second, image,
              path.string());
    }
    jobs.push_back({image, file});
  }
  for (const std::string& image : images) {
    for (const auto& [path, source] : taken) {
      std::error_code absent;
      require(!fs::equivalent(path, image, absent) || absent, "",
              "predict: the {} of {} would replace the image {}; choose another --out", what, source, image);
    }
  }
  return jobs;
}

}  // namespace tandem::tasks
