#include "data/boxes/box_admission.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::datasets {

void Refusals::add(std::string_view where, std::string why) {
  if (count_++ > 0) return;
  where_ = where;
  why_ = std::move(why);
}

void Refusals::finish() const {
  if (count_ == 0) return;
  throw UserError(where_, count_ == 1 ? why_
                                      : fmt::format("{}; {} more {} refused", why_, count_ - 1,
                                                    count_ == 2 ? "is" : "are"));
}

std::string text_of(const Corners& box) {
  return fmt::format("[{}, {}, {}, {}]", box.x1, box.y1, box.x2, box.y2);
}

void tally(Tally& tally, std::string_view where, std::string_view which, std::string_view what) {
  if (tally.count++ == 0) tally.first = fmt::format("[{}] {}: {}", where, which, what);
}

namespace {

// Reason to refuse a box; "" if it is valid.
std::string unsound(const FileBox& box) {
  const Corners& c = box.object.box;
  for (const double value : {c.x1, c.y1, c.x2, c.y2, box.width, box.height})
    if (!std::isfinite(value)) return fmt::format("its box {} is not finite", text_of(c));
  if (box.width < 0 || box.height < 0)
    return fmt::format("its box is {} wide and {} high; neither may be negative", box.width, box.height);
  if (box.area && !(std::isfinite(*box.area) && *box.area >= 0))
    return fmt::format("its area is {}, expected a finite number of at least 0", *box.area);
  return {};
}

Corners within(const Corners& box, const BoxImage& image) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  return {std::clamp(box.x1, 0.0, width), std::clamp(box.y1, 0.0, height), std::clamp(box.x2, 0.0, width),
          std::clamp(box.y2, 0.0, height)};
}

std::string against(const Corners& box, const BoxImage& image) {
  return fmt::format("{} in an image of {}x{}", text_of(box), image.width, image.height);
}

bool empty(const Corners& box) { return box.width() <= 0 || box.height() <= 0; }

}  // namespace

void BoxAdmission::admit(BoxImage& image, const FileBox& box, std::string_view where,
                         std::string_view which) {
  if (std::string why = unsound(box); !why.empty()) {
    refusals_.add(where, fmt::format("{}: {}", which, why));
    return;
  }
  BoxObject object = box.object;
  const Corners given = object.box;
  // A width too small to change x1 counts as zero.
  if (empty(given)) return tally(tallies_.zero_area, where, which, text_of(given));
  object.box = within(given, image);
  if (empty(object.box)) return tally(tallies_.outside, where, which, against(given, image));
  const bool clipped = object.box != given;
  if (clipped) tally(tallies_.clipped, where, which, against(given, image));
  object.area = box.area.value_or(clipped ? object.box.area() : box.width * box.height);
  image.objects.push_back(object);
}

void drop_for_training(BoxCorpus& corpus, bool difficult_too) {
  BoxTallies& tallies = corpus.tallies;
  for (BoxImage& image : corpus.images) {
    std::erase_if(image.objects, [&](const BoxObject& object) {
      const bool difficult = object.difficult && difficult_too;
      if (!object.crowd && !difficult) return false;
      tally(object.crowd ? tallies.crowds : tallies.difficult, image.name,
            fmt::format("annotation {}", object.id), text_of(object.box));
      return true;
    });
  }
}

}  // namespace tandem::datasets
