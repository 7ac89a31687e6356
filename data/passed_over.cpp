#include "data/passed_over.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/printable.h"

namespace tandem::datasets {

bool is_foreign(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 7> kLeft{"__MACOSX",  "@eaDir",       "#recycle",
                                                  "@Recycle",  "$RECYCLE.BIN", "System Volume Information",
                                                  "lost+found"};
  const std::string name = path.filename().string();
  return name.starts_with('.') || std::ranges::find(kLeft, name) != kLeft.end();
}

PassedOver& PassedOver::operator+=(const PassedOver& other) {
  for (const auto kind : {&PassedOver::foreign, &PassedOver::others, &PassedOver::repeated}) {
    Kind &to = this->*kind, from = other.*kind;
    if (to.count == 0) to.first = from.first;
    to.count += from.count;
  }
  return *this;
}

std::vector<std::string> PassedOver::notes() const {
  std::vector<std::string> notes;
  const auto note = [&](const Kind& kind, std::string_view one, std::string_view several) {
    if (kind.count == 1)
      notes.push_back(fmt::format("one {} is ignored: {}", one, printable(kind.first.string())));
    if (kind.count > 1)
      notes.push_back(fmt::format("{} {} are ignored, the first: {}", kind.count, several,
                                  printable(kind.first.string())));
  };
  note(foreign, "hidden or foreign file or folder", "hidden or foreign files and folders");
  note(others, "file that is no .jpg, .jpeg or .png", "files that are no .jpg, .jpeg or .png");
  note(repeated, "link to a folder that is searched already", "links to folders that are searched already");
  return notes;
}

}  // namespace tandem::datasets
