#include "data/boxes/box_registry.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "data/boxes/box_admission.h"
#include "data/boxes/box_summary.h"
#include "data/boxes/coco.h"
#include "data/boxes/label_check.h"
#include "data/boxes/voc.h"
#include "data/decorators.h"
#include "data/named_path.h"

namespace tandem::datasets {

BoxSetRegistry& box_sets() {
  static BoxSetRegistry registry({.what = "data set", .help = "the data set"}, {voc_entry, coco_entry});
  return registry;
}

const options::Schema& BoxSetOptions::schema() {
  static const options::Schema schema =
      options::Describe<BoxSetOptions>()
          .choice(&BoxSetOptions::set)
          .include(&BoxSetOptions::common)
          .key("missing", &BoxSetOptions::missing,
               "images without a file: error stops, skip leaves them out and counts them")
          .key("difficult", &BoxSetOptions::difficult,
               "VOC's difficult objects in training: keep or drop; evaluations keep all of them")
          .options_of(&BoxSetOptions::set)
          .short_key("name");
  return schema;
}

namespace {

// A corpus of the images at the ascending indices `places`, with copies of the other fields.
BoxCorpus chosen(BoxCorpus& from, const std::vector<std::uint32_t>& places) {
  BoxCorpus corpus{
      .where = from.where, .classes = from.classes, .images = {}, .tallies = {}, .maker = from.maker};
  for (const std::uint32_t place : places) corpus.images.push_back(std::move(from.images[place]));
  return corpus;
}

Index images_in(const BoxCorpus& corpus) { return static_cast<Index>(corpus.images.size()); }

// Keeps `count` random images, as data/labelled_set.cpp does for samples.
void limit(BoxCorpus& corpus, Index count, std::uint64_t seed) {
  if (count == 0 || count >= images_in(corpus)) return;
  std::vector<std::uint32_t> kept = permutation(images_in(corpus), seed, 1);
  kept.resize(static_cast<std::size_t>(count));
  std::ranges::sort(kept);
  corpus.images = chosen(corpus, kept).images;
}

// Splits the images at random into `first` ones and the rest; both keep their order.
std::pair<BoxCorpus, BoxCorpus> parted(BoxCorpus& corpus, Index first, std::uint64_t seed,
                                       std::uint32_t draw) {
  std::vector<std::uint32_t> order = permutation(images_in(corpus), seed, draw);
  const auto cut = order.begin() + first;
  std::sort(order.begin(), cut);
  std::sort(cut, order.end());
  BoxCorpus one = chosen(corpus, {order.begin(), cut});
  return {std::move(one), chosen(corpus, {cut, order.end()})};
}

void apply_box_sizes(const SetOptions& options, BoxSplits& splits) {
  if (!splits.validation && options.validation_size > 0) {
    const Index size = images_in(splits.train);
    require(options.validation_size < size, "data.validation_size", "is {}, the training split has {} images",
            options.validation_size, size);
    auto [held_out, rest] = parted(splits.train, options.validation_size, options.seed(), 2);
    splits.validation = std::move(held_out);
    splits.train.images = std::move(rest.images);
  }
  limit(splits.train, options.train_size, options.seed());
  limit(splits.test, options.test_size, options.seed());
  if (splits.validation) limit(*splits.validation, options.validation_size, options.seed());
}

void note_shared(const BoxCorpus& train, const BoxCorpus& other, std::string_view name,
                 std::vector<std::string>& notes) {
  std::unordered_set<std::string_view> files;
  if (train.maker) return;
  for (const BoxImage& image : train.images) files.insert(image.file);
  Tally shared;
  for (const BoxImage& image : other.images)
    if (files.contains(image.file) && shared.count++ == 0) shared.first = image.file;
  if (shared.count > 0)
    notes.push_back(
        fmt::format("{}: {} of its images are also in the training split, which makes its metrics too good; "
                    "the first: {}",
                    name, shared.count, shared.first));
}

void note_split(const BoxCorpus& corpus, std::string_view name, std::vector<std::string>& notes) {
  notes.push_back(fmt::format("{}: {}", name, summary_of(corpus).text(corpus.classes)));
  for (const std::string& note : notes_of(corpus.tallies)) notes.push_back(fmt::format("{}: {}", name, note));
}

}  // namespace

void hold_out_test(BoxSplits& splits, double fraction, std::uint64_t seed) {
  const Index count = images_in(splits.train);
  require(count >= 2, splits.train.where, "has fewer than two images; the test split needs one of them");
  const auto share = std::llround(fraction * static_cast<double>(count));
  auto [held_out, rest] = parted(splits.train, std::clamp<Index>(share, 1, count - 1), seed, 3);
  splits.test = std::move(held_out);
  splits.train.images = std::move(rest.images);
}

BoxSplits open_box_set(const BoxSetOptions& options) {
  options::require_sound("data", BoxSetOptions::schema(), &options);
  BoxSplits splits =
      open_named_path(options.common, [&] { return box_sets().make(options.set, options.common); });
  check_images(splits.train, options.missing);
  check_images(splits.test, options.missing);
  if (splits.validation) check_images(*splits.validation, options.missing);
  // Label checks see all boxes of the files, so they run before the sizes apply.
  const std::vector<std::string> warnings = label_warnings(splits.train);
  apply_box_sizes(options.common, splits);
  drop_for_training(splits.train, options.difficult == Difficult::drop);
  require(summary_of(splits.train).boxes > 0, splits.train.where, "has no box to learn from");
  note_split(splits.train, "training", splits.notes);
  if (splits.validation) note_split(*splits.validation, "validation", splits.notes);
  note_split(splits.test, "test", splits.notes);
  splits.notes.insert(splits.notes.end(), warnings.begin(), warnings.end());
  note_shared(splits.train, splits.test, "test", splits.notes);
  if (splits.validation) note_shared(splits.train, *splits.validation, "validation", splits.notes);
  for (std::string& note : splits.notes) note = printable(note);
  return splits;
}

std::optional<PublishedBoxes> published_boxes(const BoxSetOptions& options) {
  constexpr Index kCocoClasses = 80, kCocoIds = 90, kVocClasses = 20, kMostObjects = 100;
  if (options.set.name() == "coco")
    return PublishedBoxes{options.set.as<CocoOptions>().labels == CocoLabels::rank ? kCocoClasses : kCocoIds,
                          kMostObjects};
  if (options.set.name() != "voc") return {};
  const auto named = static_cast<Index>(options.set.as<VocOptions>().class_names.size());
  return PublishedBoxes{named > 0 ? named : kVocClasses, kMostObjects};
}

BoxSplits open_box_set(std::string_view name, const SetOptions& common, const options::Given& own) {
  return open_box_set({.set = options::Choice<box_sets>(name, own), .common = common});
}

}  // namespace tandem::datasets
