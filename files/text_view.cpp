#include "files/text_view.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "files/input.h"

namespace tandem::files {

TextView::TextView(const std::filesystem::path& path, std::uint64_t limit) {
  const InputFile file(path);
  require(file.size() <= limit, file.path(), "has {} bytes, at most {} are read", file.size(), limit);
  if (file.size() < kMapped) {
    read_ = read_text(path, limit);
    text_ = read_;
    return;
  }
  void* const mapping = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (mapping == MAP_FAILED)
    throw VendorError(file.path(), fmt::format("cannot be mapped: {}", std::strerror(errno)));
  mapping_ = mapping;
  text_ = {static_cast<const char*>(mapping), file.size()};
}

TextView::~TextView() {
  if (mapping_) munmap(mapping_, text_.size());
}

}  // namespace tandem::files
