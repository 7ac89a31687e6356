#include "data/boxes/voc_lists.h"

#include <unordered_map>

#include "core/error.h"
#include "core/printable.h"
#include "data/passed_over.h"
#include "files/byte_order_mark.h"
#include "files/input.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxListBytes = std::uint64_t{256} << 20;

std::vector<std::string_view> words_of_line(std::string_view line) {
  constexpr std::string_view kBetween = " \t\r";
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return words;
    const std::size_t end = std::min(line.find_first_of(kBetween, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

bool is_folder(const fs::path& path) { return files::kind_of(path) == files::Kind::folder; }

VocList annotated(const fs::path& folder) {
  VocList list{.folder = folder, .ids = {}};
  const fs::path annotations = folder / "Annotations";
  for (const fs::directory_entry& entry : files::entries_of(annotations))
    if (entry.path().extension() == ".xml")
      (is_foreign(entry.path()) ? list.foreign : list.ids)
          .push_back({.id = entry.path().stem().string(), .place = entry.path().string()});
  require(!list.ids.empty(), annotations.string(), "has no annotation (.xml)");
  return list;
}

}  // namespace

void read_voc_list(const fs::path& path, VocList& list) {
  const std::string text = files::read_text(path, kMaxListBytes);
  std::unordered_map<std::string_view, std::size_t> lines;
  std::size_t number = 0;
  files::each_line(files::without_byte_order_mark(text), [&](std::string_view line, bool) {
    const std::string place = fmt::format("{}:{}", path.string(), ++number);
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.empty()) return;
    const std::string_view id = words[0], flag = words.size() > 1 ? words[1] : "1";
    require(words.size() <= 2 && (flag == "1" || flag == "-1" || flag == "0"), place,
            "\"{}\" is neither an id nor, for a list of one class, an id and 1, -1 or 0",
            shortened(printable(line), 80));
    require(id.find('/') == id.npos && id.find('\0') == id.npos && id != "." && id != "..", place,
            "\"{}\" is no valid file name", shortened(printable(id), 80));
    const auto [known, fresh] = lines.emplace(id, number);
    require(fresh, place, "{} is in line {}, too", printable(id), known->second);
    (flag == "-1" ? list.unlisted : list.ids).push_back({.id = std::string(id), .place = place});
  });
  require(!list.ids.empty(), path.string(), "lists no image");
}

VocList voc_list(const fs::path& root, const std::string& split, const std::string& key) {
  const fs::path place = (root / split).lexically_normal();
  if (is_folder(place / "Annotations")) return annotated(place);
  VocList list{.folder = place.parent_path(), .ids = {}};
  const fs::path file = list.folder / "ImageSets/Main" / (place.filename().string() + ".txt");
  require(files::kind_of(file) == files::Kind::file, key,
          "\"{}\" is neither a list, {}, nor a folder with Annotations; a split is FOLDER/LIST below the "
          "path, such as VOC2007/trainval",
          split, file.string());
  read_voc_list(file, list);
  return list;
}

}  // namespace tandem::datasets
