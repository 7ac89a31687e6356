// Admission of the boxes of a file: each is refused, left out, clipped to its image, or kept. The rules apply
// to all formats.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// Refusals of one file, collected into one message that counts them.
class Refusals {
 public:
  // The first `where` and `why` become the message.
  void add(std::string_view where, std::string why);
  Index count() const { return count_; }
  // Throws UserError if there are any.
  void finish() const;

 private:
  Index count_ = 0;
  std::string where_, why_;
};

// A box as annotated.
struct FileBox {
  BoxObject object;            // box, label, id and flags; `area` is unused
  double width, height;        // of the box, from the file
  std::optional<double> area;  // absent: width · height
};

class BoxAdmission {
 public:
  // Keeps references to both.
  BoxAdmission(BoxTallies& tallies, Refusals& refusals) : tallies_(tallies), refusals_(refusals) {}

  // Refuses coordinates or areas that are not finite, and negative sizes or areas. Leaves out and counts
  // boxes of zero area and those outside the image. Clips and counts those that cross its border. `where`
  // (the file) and `which` (the annotation) are for messages.
  void admit(BoxImage& image, const FileBox& box, std::string_view where, std::string_view which);

 private:
  BoxTallies& tallies_;
  Refusals& refusals_;
};

// Counts, and keeps the first as "[where] which: what".
void tally(Tally& tally, std::string_view where, std::string_view which, std::string_view what);

// "[3, 4.5, 20, 30]": x1, y1, x2, y2 of a box, for messages.
std::string text_of(const Corners& box);

// Drops and counts objects that training ignores: crowds and, with `difficult_too`, difficult objects.
void drop_for_training(BoxCorpus& corpus, bool difficult_too);

}  // namespace tandem::datasets
