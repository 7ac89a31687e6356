// Files in data folders that are no samples, and are ignored and counted: hidden files, files of systems and
// programs, other kinds of files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

// Decides by the name: hidden (".ipynb_checkpoints", "._a.png"), or written by archivers and storage devices
// ("__MACOSX", "@eaDir").
bool is_foreign(const std::filesystem::path& path);

struct PassedOver {
  struct Kind {
    Index count = 0;
    std::filesystem::path first;
    void add(const std::filesystem::path& path) {
      if (count++ == 0) first = path;
    }
  };
  Kind foreign;   // files and folders
  Kind others;    // files that are no images
  Kind repeated;  // links to folders that were searched already

  PassedOver& operator+=(const PassedOver& other);
  // One line per kind: "2 files that are no images are ignored, the first: a/notes.txt".
  std::vector<std::string> notes() const;
};

}  // namespace tandem::datasets
