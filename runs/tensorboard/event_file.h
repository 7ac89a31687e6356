// EventFile: what TensorBoard reads, one file a session of a run. `tensorboard --logdir runs` shows them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runs/tensorboard/histogram.h"

namespace tandem::tensorboard::proto {
class Event;
}

namespace tandem::tensorboard {

class EventFile {
 public:
  // Makes `folder` and in it events.out.tfevents.<unix time>.<host>, with ".2", ".3"… behind it where a file
  // of that name is there. Throws VendorError when it cannot. Every record is given to the system at once.
  explicit EventFile(const std::filesystem::path& folder);
  ~EventFile();

  // A session starts whose first step is `step`: TensorBoard drops what earlier files say of it and of later
  // steps.
  void start(std::int64_t step);
  // Names, with "/" between group and rest, and values; a value may be NaN.
  void scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  void histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values);
  // `png`: the file's bytes, of which the header says the size. Does nothing for bytes that are no PNG.
  void image(std::int64_t step, const std::string& name, const std::string& png);
  // `markdown` for the text dashboard.
  void text(std::int64_t step, const std::string& name, const std::string& markdown);

  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write(proto::Event& event);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace tandem::tensorboard
