// Files in folders of data that are no samples, and are passed over and counted: hidden ones, those that
// systems and programs leave there, those of other kinds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

// By its name alone: hidden (".ipynb_checkpoints", "._a.png"), or what archivers and storage devices leave
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
  Kind repeated;  // links to folders that were looked through already

  PassedOver& operator+=(const PassedOver& other);
  // "2 files that are no images are passed over, the first: a/notes.txt"; a line for each kind there is.
  std::vector<std::string> notes() const;
};

}  // namespace tandem::datasets
