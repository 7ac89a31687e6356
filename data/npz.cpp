// .npz archives through libarchive, and the search for a data set's arrays by name. Members are streamed and
// never extracted.
#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/error.h"
#include "data/limits.h"
#include "data/npy.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace {

struct CloseArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using ArchivePtr = std::unique_ptr<archive, CloseArchive>;

std::string message_of(archive* handle) {
  const char* message = archive_error_string(handle);
  return message ? message : "there is no directory of members at its end";
}

class MemberReader final : public ByteReader {
 public:
  MemberReader(archive* handle, std::string name, std::size_t bound)
      : ByteReader(std::move(name)), handle_(handle) {
    exact_ = false;
    total_ = bound;
  }

 private:
  std::size_t read_some(void* to, std::size_t bytes) override {
    const la_ssize_t got = archive_read_data(handle_, to, bytes);
    require(got >= 0, name(), "damaged or truncated: {}", message_of(handle_));
    return static_cast<std::size_t>(got);
  }

  archive* handle_;
};

// True for a zip file of the end record only, which libarchive does not recognise.
bool is_empty_zip(const files::InputFile& file) {
  constexpr std::string_view kEnd{"PK\5\6\0\0\0\0\0\0\0\0",
                                  12};  // signature, two disks, two counts of members
  std::array<char, kEnd.size()> first{};
  if (file.size() < 22) return false;
  file.read(0, first.data(), first.size());
  return std::string_view(first.data(), first.size()) == kEnd;
}

constexpr int kSplits = 3;  // train, validation, test

struct Role {
  int split = 0;
  bool labels = false;
};

// Role of an array, by its name.
std::optional<Role> role_of(const std::string& name) {
  static const std::map<std::string, bool> parts{
      {"x", false},     {"images", false}, {"image", false},  {"data", false},  {"y", true},
      {"labels", true}, {"label", true},   {"targets", true}, {"arr_0", false}, {"arr_1", true}};
  static const std::map<std::string, int> splits{
      {"train", 0}, {"val", 1}, {"valid", 1}, {"validation", 1}, {"test", 2}};
  if (const auto part = parts.find(name); part != parts.end()) return Role{0, part->second};
  const std::size_t at = name.find('_');
  if (at == std::string::npos) return std::nullopt;
  const std::string first = name.substr(0, at), second = name.substr(at + 1);
  for (const auto& [split, part] : {std::pair(first, second), std::pair(second, first)}) {
    const auto a = splits.find(split);
    const auto b = parts.find(part);
    if (a != splits.end() && b != parts.end()) return Role{a->second, b->second};
  }
  return std::nullopt;
}

std::vector<NamedArray> read_arrays(const std::filesystem::path& path) {
  const auto known = [](const std::string& name) { return role_of(name).has_value(); };
  if (files::kind_of(path) != files::Kind::folder) return read_npz(path, known);
  std::vector<NamedArray> arrays;
  for (const auto& entry : files::entries_of(path)) {
    const std::filesystem::path& file = entry.path();
    const std::string name = file.stem().string();
    if (file.extension() == ".npy" && known(name)) arrays.push_back({name, read_npy(*open_file(file))});
  }
  return arrays;
}

}  // namespace

std::vector<NamedArray> read_npz(const std::filesystem::path& path,
                                 const std::function<bool(const std::string&)>& wanted) {
  const std::string file = path.string();
  const files::InputFile input(path);
  require(input.size() > 0, file, "is empty, expected a .npz (zip) file");
  require(!is_empty_zip(input), file, "is a .npz (zip) file without members");
  const ArchivePtr handle(archive_read_new());
  ensure(handle != nullptr, "npz", "libarchive returned no reader");
  archive_read_support_format_zip_seekable(handle.get());  // requires the directory at the end
  require(archive_read_open_fd(handle.get(), input.descriptor(), 1U << 17) == ARCHIVE_OK, file,
          "is not a .npz (zip) file: {}", message_of(handle.get()));
  std::size_t budget = most_unpacked(input.size());  // size of all members after unpacking
  std::vector<NamedArray> arrays;
  for (;;) {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(handle.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    require(status == ARCHIVE_OK || status == ARCHIVE_WARN, file, "is not a whole .npz (zip) file: {}",
            message_of(handle.get()));
    const char* member = archive_entry_pathname(entry);
    std::string name = member ? member : "";
    if (!name.ends_with(".npy")) continue;
    name.resize(name.size() - 4);
    if (!wanted(name)) continue;
    MemberReader reader(handle.get(), file + ":" + name + ".npy", budget);
    arrays.push_back({name, read_npy(reader)});
    budget -= std::min(budget, reader.position());
  }
  return arrays;
}

ArraySplits read_array_splits(const std::filesystem::path& path, const DatasetInfo& info, Layout layout) {
  const std::string source = path.string();
  files::require_there(files::kind_of(path) != files::Kind::absent, source,
                       "there is no such file or folder, expected a .npz file or .npy files");
  std::array<std::array<std::optional<NamedArray>, 2>, kSplits> found;
  for (NamedArray& array : read_arrays(path)) {
    const Role role = *role_of(array.name);
    auto& place = found[role.split][role.labels];
    require(!place, source, "has two arrays for the same role, {} and {}", place ? place->name : "",
            array.name);
    place = std::move(array);
  }
  require(found[0][0] && found[0][1], source,
          "has no training images and labels; expected arrays named x_train and y_train, train_images and "
          "train_labels, or images and labels");
  std::array<DatasetPtr, kSplits> sets;
  DatasetInfo shared = info;
  for (int split = 0; split < kSplits; ++split) {
    if (!found[split][0] && !found[split][1]) continue;
    require(found[split][0] && found[split][1], source, "has {}, but not its {}",
            found[split][0] ? found[split][0]->name : found[split][1]->name,
            found[split][0] ? "labels" : "images");
    const std::string where = source + ":" + found[split][0]->name;
    const auto set = dataset_of_arrays(found[split][0]->array, found[split][1]->array, shared, where, layout);
    // The other splits must fit the training split.
    if (split == 0) {
      set->set_statistics(statistics_of(*set));
      shared.classes = set->info().classes;
      shared.statistics = set->info().statistics;
    }
    sets[split] = set;
    require(set->info().sample_shape == sets[0]->info().sample_shape, where,
            "has samples of shape {}, the training split of {}", to_string(set->info().sample_shape),
            to_string(sets[0]->info().sample_shape));
    require(set->info().dtype == sets[0]->info().dtype, where, "has samples of {}, the training split of {}",
            name_of(set->info().dtype), name_of(sets[0]->info().dtype));
  }
  return {sets[0], sets[1], sets[2]};
}

}  // namespace tandem::datasets
