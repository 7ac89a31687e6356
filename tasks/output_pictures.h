// The files that `tandem predict --out` writes pictures to.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::tasks {

struct PictureJob {
  std::string image;  // that is read
  std::filesystem::path out;
};

// What is written beside a picture; may be empty.
using FilesBeside = std::function<std::vector<std::filesystem::path>(const std::filesystem::path& out)>;

// A PNG file is named for one image, and a folder for any number, in which pictures are called as the images
// are. Throws UserError, in which `what` is "masks", say, for one file and several images, for two that would
// be written to one file, and for one that would replace an image.
std::vector<PictureJob> picture_jobs(const std::vector<std::string>& images, const std::string& out,
                                     const std::string& what, const FilesBeside& beside = {});

}  // namespace tandem::tasks
