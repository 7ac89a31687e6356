// Output files of `tandem predict --out` for pictures.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::tasks {

struct PictureJob {
  std::string image;  // input
  std::filesystem::path out;
};

// Further files written beside a picture; may be empty.
using FilesBeside = std::function<std::vector<std::filesystem::path>(const std::filesystem::path& out)>;

// `out` is a PNG file for one image, or a folder for any number, with pictures named like the images. Throws
// UserError, which calls the pictures `what` (e.g. "masks"), for one file and several images, for two
// pictures with the same file, and for a picture that would replace an image.
std::vector<PictureJob> picture_jobs(const std::vector<std::string>& images, const std::string& out,
                                     const std::string& what, const FilesBeside& beside = {});

}  // namespace tandem::tasks
