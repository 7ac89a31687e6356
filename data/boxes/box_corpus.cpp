#include "data/boxes/box_corpus.h"

#include <cctype>

namespace tandem::datasets {

void BoxClasses::add(std::string name, std::int64_t id) {
  names.push_back(std::move(name));
  ids.push_back(id);
}

bool means_background(std::string_view name) {
  std::string letters;
  for (const unsigned char c : name)
    if (std::isalpha(c) != 0) letters += static_cast<char>(std::tolower(c));
  return letters == "background" || letters == "bg";
}

}  // namespace tandem::datasets
